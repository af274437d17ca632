"""Every peer that is installed answers each frame with its own result, one by one and, if it can, eight at a time."""

from pathlib import Path

import pytest

from tests.bench.peers.environments import Environments
from tests.bench.peers.kinds import PEERS
from tests.bench.peers.pair import Pair

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("name", PEERS)
def test_frames_of_every_size_are_answered_by_their_own_results(name: str, tmp_path: Path) -> None:
    peer, environments = PEERS[name], Environments()
    python = environments.python(peer.environment)
    if python is None:
        assert peer.environment is not None
        pytest.skip(environments.how(peer.environment))
    with Pair(peer, python, tmp_path) as pair:
        for size_bytes in (30_000, 900_000):
            closed = pair.ask(size_bytes=size_bytes, frames=20, window=1)
            assert 0 < closed["p50_us"] <= closed["p99_us"]
            if peer.windowed:
                assert pair.ask(size_bytes=size_bytes, frames=40, window=8)["per_s"] > 0

"""A replica as Serve uses it, without a Serve: its streams, its manners, its end."""

import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cloud.deploy.replica import Replica
from cloud.deploy.scaling import BUSY
from cloud.listeners.grpc.streams import StreamListener
from pipelines.errors import Fatal
from protos.wire.bulk import Ack
from protos.wire.live import Reject, Result
from protos.wire.session import Error, Hello, Lane, RejectReason, Welcome
from tests.support.agents import HELLO, GrpcSpeaker, agent, frame
from tests.support.eventually import eventually
from tests.support.grey_picture import grey_picture
from tests.support.hosted import host
from tests.support.link_house import BATCH

WORKER = """\
version: 1
state_dir: {root}
listen: {{grpc: {{address: "0.0.0.0:20443", insecure: true}}}}
models: {{thing: {{detector: {{kind: synthetic, delay: 300ms}}}}}}
drain: 3s
"""


class House:
    """A replica behind a server; `told` is what it hears when it asks whether to end."""

    def __init__(self, root: Path, *sets: str) -> None:
        path = root / "worker.yaml"
        path.write_text(WORKER.format(root=root))
        self.told = False
        self.replica = Replica(str(path), sets, lambda: self.told)

    async def serve(self, lane: Lane, requests: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        stream = self.replica.Live if lane is Lane.LIVE else self.replica.Bulk
        async for packed in stream(requests):
            yield packed.SerializeToString()


@contextmanager
def house(root: Path, *sets: str) -> Iterator[tuple[House, str]]:
    made = House(root, *sets)
    with host(made.serve) as address:
        try:
            yield made, address
        finally:
            made.replica.end()
            gc.unfreeze()


def test_both_lanes_are_served_and_what_came_is_kept(tmp_path: Path) -> None:
    with house(tmp_path) as (made, address), agent(address) as gateway:
        assert gc.get_freeze_count() > 0  # what it loaded is not looked through for garbage
        gateway.send(HELLO, *frame(1, grey_picture()))
        welcome = gateway.until(Welcome)
        assert welcome.store_id == made.replica.store_fields()["store_id"]
        assert gateway.until(Result).seq == 1
        assert gateway.until(Ack).records[0].last == 1
        bulk = GrpcSpeaker(address, Lane.BULK)
        try:
            bulk.send(Hello(agent="gw", run=HELLO.run, lane=Lane.BULK, streams=HELLO.streams))
            assert isinstance(bulk.receive(), Welcome)
            bulk.send(BATCH)
            assert isinstance(bulk.receive(), Ack)
        finally:
            bulk.close()
        where, text = made.replica.metrics()
        assert where
        assert 'nearfar_worker_frames_total{outcome="answered"} 1.0' in text
        assert 0 < made.replica.record_autoscaling_stats()[BUSY] <= 1


def test_told_to_end_it_finishes_what_it_has_and_ends_its_streams(tmp_path: Path) -> None:
    with house(tmp_path) as (made, address), agent(address) as gateway:
        gateway.send(HELLO, *frame(1, grey_picture()))
        gateway.until(Welcome)
        made.told = True
        eventually(lambda: made.replica.not_ready() == ["draining"], what="its last frame")
        gateway.send(*frame(2, grey_picture()))
        assert gateway.until(Reject).reason is RejectReason.DRAINING
        assert gateway.until(Result).seq == 1
        assert gateway.until(Ack).records[0].last == 1
        with pytest.raises(AssertionError, match=r"the stream ended|StopIteration"):
            next_of(gateway)
        eventually(lambda: made.replica.not_ready() == ["it is not running"], what="its end")
        made.replica.check_health()  # one that ends by itself is not to be replaced for it
        with agent(address) as late:
            late.send(HELLO)
            assert late.until(Error).reason is RejectReason.DRAINING


def next_of(gateway: object) -> None:
    try:
        gateway.receive()  # type: ignore[attr-defined]
    except StopIteration as end:
        raise AssertionError("StopIteration") from end


def test_one_whose_model_has_died_is_to_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with house(tmp_path) as (made, _):
        made.replica.check_health()
        monkeypatch.setattr("cloud.service.dead", lambda _: ["its thread nearfar-model has ended"])
        with pytest.raises(Fatal, match="nearfar-model"):
            made.replica.check_health()


def test_how_long_a_stream_lasts_and_what_a_message_may_hold_are_those_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ages_us: list[int] = []

    def watched(*arguments: Any, max_age_us: int, **more: Any) -> StreamListener:
        ages_us.append(max_age_us)
        return StreamListener(*arguments, max_age_us=max_age_us, **more)

    monkeypatch.setattr("cloud.deploy.replica.StreamListener", watched)
    with (
        house(tmp_path, "ray.stream_for=1h", "limits.message=10kB") as (_, address),
        agent(address) as gateway,
    ):
        gateway.send(HELLO)
        gateway.until(Welcome)
        assert ages_us == [3_600_000_000]
        gateway.send(*frame(1, b"x" * 20_000))
        assert "10000" in gateway.until(Error).text

"""A finished clip ends when everything is told, and not a moment of waiting for company later."""

from pathlib import Path
from threading import Event

import pytest

from tests.support.eventually import eventually
from tests.support.gateway import gateway
from tests.support.workers import GatedDetector, RawCodec

PIPELINE = """\
streams:
  door: {{source: {{kind: synthetic, size: 64x48, fps: 50}}}}
links: {{memory: {{url: "zmq://127.0.0.1:1"}}}}
scheduler: {{policy: far_only}}
"""


def test_what_the_last_answers_left_to_tell_goes_up_at_once_when_the_clip_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The acknowledgement of the last far answer comes after the drain has begun; its outcome must not wait then."""
    monkeypatch.setattr("edge.outbox.sending.contents.OUTCOMES_EVERY_US", 3_600_000_000)
    with gateway(tmp_path, PIPELINE, build=GatedDetector, codecs={"jpeg": RawCodec()}) as house:
        agent = house.agent
        agent.start()
        eventually(lambda: agent.counters.captured >= 20, 10.0, "pictures")
        agent.stop_capture()
        agent.drain(Event(), 10_000_000)
        left = agent.vitals().outbox
        assert (left.pending, left.far_pending, left.outcomes_pending) == (0, 0, 0)
        agent.close()
        assert agent.broken == []

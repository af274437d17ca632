"""The streams of an agent with cameras: nothing waits for them, neither at the start nor at the end."""

import time

import pytest

from edge.capture.state import StreamState
from edge.capture.streams import Streams
from edge.config.streams import StreamConfig
from pipelines.errors import ConfigError
from pipelines.runtime import monotonic_us
from tests.support.eventually import eventually
from tests.support.mjpeg import mjpeg


def streams_of(events=None, **sources):
    said = [] if events is None else events
    return Streams(
        {name: StreamConfig(source=source) for name, source in sources.items()},
        deadline_us=100_000,
        max_frames=None,
        offered=said.append,
        overwritten=said.append,
        stale=said.append,
        gated=lambda frame, why: said.append((frame, why)),
        captured=lambda stream, seq: said.append((stream, seq)),
        clock_us=monotonic_us,
    )


def sizes(streams):
    return [(info.width_px, info.height_px) for info in streams.infos]


def test_the_size_of_a_camera_is_unknown_then_configured_then_that_of_its_pictures():
    with mjpeg() as server:
        streams = streams_of(
            door={"kind": "camera", "url": server.url},
            yard={"kind": "camera", "url": server.url, "size": "640x480", "fps": 12.0},
            test={"kind": "synthetic", "size": "32x16", "fps": 10.0},
        )
        assert sizes(streams) == [(0, 0), (640, 480), (32, 16)]
        assert streams.fps == 22.0
        streams.start()
        try:
            eventually(lambda: sizes(streams) == [(64, 48), (64, 48), (32, 16)], what="the first pictures")
            assert {status.state for status in streams.states().values()} == {StreamState.RUNNING}
        finally:
            streams.close(lambda: 5.0)
        assert streams.left_behind == []
        assert streams.ended.is_set()
        assert streams.errors == {}


def test_many_cameras_that_hang_are_waited_for_together_and_named():
    """F28"""
    with mjpeg(accepting=False) as server:
        streams = streams_of(**{f"cam{i}": {"kind": "camera", "url": server.url} for i in range(8)})
        streams.start()
        assert {status.state for status in streams.states().values()} == {StreamState.CONNECTING}
        begun = time.monotonic()
        streams.close(lambda: 0.2)
        assert time.monotonic() - begun < 1.0
        assert streams.left_behind == [f"cam{i}" for i in range(8)]
        eventually(streams.ended.is_set, what="the end of every stream")
    eventually(lambda: streams.left_behind == [], what="the connections gone with the server")


def test_a_folder_that_is_not_there_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(ConfigError, match="cannot read the folder"):
        streams_of(door={"kind": "images", "path": str(tmp_path / "gone")})

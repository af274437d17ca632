"""A real RTSP server on loopback: pictures come quickly, and a server that dies or freezes is noticed and found again."""

import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from edge.backoff import Backoff
from edge.capture.base import Shape
from edge.capture.camera import CameraSource
from edge.capture.camera_machine import Patience
from edge.capture.publisher import Publisher
from edge.capture.slot import Slot
from edge.capture.state import StreamState
from edge.capture.watchdog import Watchdog
from pipelines.runtime import monotonic_us
from tests.support.eventually import eventually
from tests.support.rig import free_port

RECIPE = Path(__file__).parents[3] / "shared" / "recipes" / "rtsp_cam.py"
WIDTH, HEIGHT, FPS = 640, 360, 15
PERIOD_US = 1_000_000 / FPS

NEEDS = "python3-gi and gir1.2-gst-rtsp-server-1.0, with GStreamer's plugins for H.264"


def _serves() -> bool:
    code = "import gi; gi.require_version('GstRtspServer', '1.0')"
    return subprocess.run(["/usr/bin/python3", "-c", code], check=False, capture_output=True).returncode == 0


pytestmark = [pytest.mark.lab, pytest.mark.skipif(not _serves(), reason=f"needs {NEEDS}")]


class Server:
    """The recipe as a process: a ball on black at 640x360, 15 pictures a second, H.264."""

    def __init__(self):
        self.port = free_port()
        self.url = f"rtsp://127.0.0.1:{self.port}/cam"
        self.process: subprocess.Popen[str] | None = None

    def start(self):
        self.process = subprocess.Popen(
            ["/usr/bin/python3", str(RECIPE), str(self.port)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == "up"

    def send(self, number):
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self):
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait(10)
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def server():
    if not RECIPE.exists():
        pytest.skip(f"needs {RECIPE}")
    made = Server()
    made.start()
    yield made
    made.kill()


class Watched:
    def __init__(self, url, transport="tcp"):
        self.frames: list[Any] = []
        self.stale: list[Any] = []
        self.slot = Slot()
        self.ended = threading.Event()
        self.watchdog = Watchdog(
            connect=lambda: CameraSource(url=url, transport=transport, open_us=5_000_000, read_us=1_000_000),
            publisher=Publisher(
                stream="door",
                slot=self.slot,
                latency_us=0,
                paced=True,
                offered=lambda stream: self.frames.append(self.slot.take()),
                overwritten=self.stale.append,
                stale=self.stale.append,
                captured=lambda stream, seq: None,
                clock_us=monotonic_us,
                unix_us=lambda: 0,
            ),
            patience=Patience(open_us=5_000_000, stall_us=1_000_000, max_stale_us=50_000),
            expected=Shape(width_px=0, height_px=0, fps=0.0),
            ended=lambda stream, error: self.ended.set(),
            clock_us=monotonic_us,
            backoff=Backoff(first_us=250_000, most_us=5_000_000),
        )
        self.begun_us = monotonic_us()
        self.watchdog.start()

    def wait_frames(self, count, within_s=15.0):
        """`count` frames more than there are now."""
        many = len(self.frames) + count
        eventually(
            lambda: len(self.frames) >= many, within_s, f"{count} more frames: {self.watchdog.status()}"
        )

    def wait_state(self, state, within_s=15.0):
        eventually(
            lambda: self.watchdog.status().state is state, within_s, f"{state}: {self.watchdog.status()}"
        )


@pytest.fixture
def watch():
    made = []

    def start(server, transport="tcp"):
        made.append(Watched(server.url, transport))
        return made[-1]

    yield start
    for one in made:
        assert one.watchdog.close(8.0)
        assert one.ended.is_set()


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_pictures_come_within_two_seconds_and_at_the_pace_of_the_camera(server, watch, transport):
    watched = watch(server, transport)
    watched.wait_frames(4 * FPS)
    assert watched.frames[0].available_us - watched.begun_us < 2_000_000
    fresh = [frame.available_us for frame in watched.frames[FPS:]]
    pace_us = (fresh[-1] - fresh[0]) / (len(fresh) - 1)
    assert pace_us == pytest.approx(PERIOD_US, rel=0.1)
    assert {frame.picture.shape for frame in watched.frames} == {(HEIGHT, WIDTH, 3)}
    kinds = {connection.type.name for connection in psutil.Process().net_connections() if connection.laddr}
    assert ("SOCK_DGRAM" in kinds) == (transport == "udp")


def test_a_server_that_dies_is_stalled_at_once_and_found_again_when_it_is_back(server, watch):
    """F13"""
    watched = watch(server)
    watched.wait_frames(FPS)
    server.kill()
    watched.wait_state(StreamState.STALLED, within_s=2.0)
    assert watched.watchdog.status().reason
    server.start()
    watched.wait_state(StreamState.RUNNING)
    watched.wait_frames(FPS)
    assert watched.watchdog.status().reconnects >= 1


def test_a_frozen_server_is_stalled_after_stall_after_and_recovers_when_it_goes_on(server, watch):
    """F13: nothing waits for what FFmpeg has buffered, nor for its own time-out."""
    watched = watch(server)
    watched.wait_frames(2 * FPS)
    server.send(signal.SIGSTOP)
    frozen_us = monotonic_us()
    watched.wait_state(StreamState.STALLED, within_s=3.0)
    assert monotonic_us() - frozen_us < 2_000_000
    server.send(signal.SIGCONT)
    watched.wait_state(StreamState.RUNNING)
    watched.wait_frames(FPS)


def test_a_freeze_shorter_than_stall_after_leaves_only_stale_pictures_behind(server, watch):
    watched = watch(server)
    watched.wait_frames(6 * FPS)  # the camera's times are trusted after five seconds
    stale = len(watched.stale)
    server.send(signal.SIGSTOP)
    before = len(watched.frames)
    frozen_us = monotonic_us()
    eventually(lambda: monotonic_us() - frozen_us > 600_000, what="0.6 s")
    server.send(signal.SIGCONT)
    eventually(lambda: len(watched.frames) >= before + FPS, what="fresh pictures")
    assert watched.watchdog.status().reconnects == 0
    assert all(frame.available_us - frame.captured_us <= 50_000 for frame in watched.frames)
    assert len(watched.stale) > stale


def test_a_wrong_path_says_what_to_check(server, watch):
    """F28"""
    server.url = server.url.replace("/cam", "/nothing")
    watched = watch(server)
    eventually(lambda: "answers 404" in watched.watchdog.status().reason, what="the reason")
    assert watched.watchdog.close(1.0)

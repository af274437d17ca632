"""Field cases around cameras: a real agent process, a real MJPEG camera over TCP that misbehaves."""

import json
import signal
import threading
import time

import pytest

from tests.support import mjpeg
from tests.support.eventually import eventually
from tests.support.rig import Process, free_port

PIPELINE = """\
version: 1
agent: gateway
state_dir: {root}/gateway
deadline: {deadline}
streams:
  door:
    source: {{kind: camera, url: "{url}", open_timeout: {open_timeout}, stall_after: 1500ms}}
near:
  detector: {{kind: synthetic, delay: 2ms, labels: [thing]}}
scheduler: {{policy: near_only}}
sinks:
  - {{kind: stdout}}
"""

WORKER = """\
version: 1
name: worker
state_dir: {root}/worker
listen:
  zmq: {{address: "127.0.0.1:{port}"}}
models:
  thing:
    detector: {{kind: synthetic, delay: 5ms, labels: [thing]}}
"""

FAR_ONLY = """\
version: 1
agent: gateway
state_dir: {root}/gateway
deadline: 3s
streams:
  door: {{source: {{kind: camera, url: "{url}"}}}}
links:
  cable: {{url: "zmq://127.0.0.1:{port}"}}
scheduler: {{policy: far_only}}
sinks:
  - {{kind: stdout}}
"""


class Gateway:
    def __init__(self, root, url, open_timeout, deadline):
        self.run_dir = root / "run"
        path = root / "pipeline.yaml"
        path.write_text(PIPELINE.format(root=root, url=url, open_timeout=open_timeout, deadline=deadline))
        self.begun = time.monotonic()
        self.process = Process(["edge", str(path), "--run-dir", str(self.run_dir)], root / "agent.log")

    @property
    def log(self):
        return self.process.log.read_text()

    @property
    def answers(self):
        return self.process.lines

    def wait_answers(self, count, within_s=15.0):
        """`count` answers more than there are now."""
        many = len(self.answers) + count
        eventually(
            lambda: len(self.answers) >= many, within_s, f"{count} more answers; log:\n{self.log[-2000:]}"
        )

    def wait_said(self, words, within_s=15.0):
        eventually(lambda: words in self.log, within_s, f"{words!r} in the log; it is:\n{self.log[-2000:]}")

    def stop(self, within_s=5.0):
        """SIGTERM; the summary, whose law has been checked. Half of what a camera may take to open."""
        begun = time.monotonic()
        code = self.process.stop()
        took_s = time.monotonic() - begun
        assert code == 0, self.log[-2000:]
        assert took_s < within_s, f"stopping took {took_s:.1f} s"
        summary = json.loads((self.run_dir / "summary.json").read_text())
        frames = summary["frames"]
        answered = frames["near"] + frames["far"] + frames["tracked"] + frames["missed"]
        assert frames["captured"] == answered + frames["gated"] + sum(frames["shed"].values())
        assert frames["captured"] == summary["streams"]["door"]["captured"]
        return summary


@pytest.fixture
def gateway(tmp_path):
    started = []

    def start(url, *, open_timeout="10s", deadline="3s"):
        made = Gateway(tmp_path, url, open_timeout, deadline)
        started.append(made)
        made.process.wait_ready()
        return made

    yield start
    for made in started:
        if made.process.popen.poll() is None:
            made.process.signal(signal.SIGCONT)
            made.process.end()


def scripts(*plays):
    """The first connection plays the first, and so on; the last one plays for all that follow."""

    def script(line):
        plays[min(line.number, len(plays)) - 1](line)

    return script


def a_second_then(then):
    def script(line):
        line.send(mjpeg.HEAD)
        line.pictures(range(30), period_s=0.03)
        then(line)

    return script


def drop(line):
    """The script ends, and with it the connection."""


def address(port):
    """Of a camera that is not there yet."""
    return f"http://127.0.0.1:{port}/video"


def test_a_camera_as_it_should_be_is_answered_frame_by_frame(gateway):
    with mjpeg.mjpeg() as server:
        agent = gateway(server.url)
        agent.wait_answers(50)
        summary = agent.stop()
    assert {answer["answered_by"] for answer in agent.answers} == {"near"}
    assert summary["streams"]["door"]["state"] == "ended"
    assert summary["streams"]["door"]["size"] == "64x48"
    assert summary["streams"]["door"]["reconnects"] == 0


@pytest.mark.parametrize("fault", [drop, mjpeg.Line.freeze], ids=["drops its connection", "freezes"])
def test_a_camera_that_is_lost_is_said_to_be_stalled_and_answered_again_when_it_is_back(gateway, fault):
    """F13"""
    with mjpeg.mjpeg(scripts(a_second_then(fault), mjpeg.endless)) as server:
        agent = gateway(server.url)
        agent.wait_said("stream door: stalled")
        agent.wait_said("stream door: running again")
        agent.wait_answers(20)
        summary = agent.stop()
    assert summary["streams"]["door"]["reconnects"] == 1
    assert server.connections == 2


def test_the_agent_starts_and_stops_without_its_camera_and_finds_it_later(gateway):
    """F16, F28"""
    port = free_port()
    agent = gateway(address(port))
    agent.wait_said("refuses connections")
    with mjpeg.mjpeg(port=port):
        agent.wait_answers(20, within_s=15)
        agent.stop()


def test_an_agent_whose_camera_is_never_there_stops_at_once(gateway):
    """F28"""
    agent = gateway(address(free_port()))
    agent.wait_said("refuses connections")
    summary = agent.stop()
    assert summary["frames"]["captured"] == 0


@pytest.mark.parametrize("scheme", ["http", "rtsp"])
def test_a_camera_that_accepts_and_never_answers_delays_neither_start_nor_stop(gateway, scheme):
    """F28"""
    with mjpeg.mjpeg(accepting=False) as server:
        agent = gateway(server.url.replace("http", scheme), open_timeout="20s")
        assert time.monotonic() - agent.begun < 15
        agent.stop()


def test_a_camera_that_accepts_and_never_answers_is_tried_again_and_the_reason_is_heard(gateway):
    """F28"""
    with mjpeg.mjpeg(accepting=False) as server:
        agent = gateway(server.url, open_timeout="2s")
        agent.wait_said("does not answer; check that the camera is on")
        server.accepting.set()
        agent.wait_answers(20)
        agent.stop()


def test_a_wrong_path_is_said_in_words_and_the_agent_stops(gateway):
    """F28"""
    with mjpeg.mjpeg(mjpeg.status(404, "Not Found")) as server:
        agent = gateway(server.url.replace("//", "//admin:s3cret@"))
        agent.wait_said("the camera answers 404: there is no such stream; check the path")
        eventually(lambda: server.connections >= 2, what="another attempt")
        summary = agent.stop()
    assert "s3cret" not in agent.log
    assert "s3cret" not in json.dumps(summary)
    assert agent.log.count("404") == 1


@pytest.mark.alone
def test_pictures_kept_during_a_stall_are_shed_and_the_next_fresh_one_is_answered(gateway):
    """F13"""
    stalled, over = threading.Event(), threading.Event()

    def script(line):
        line.send(mjpeg.HEAD)
        line.pictures(range(30), period_s=0.03)
        stalled.set()
        line.wait(0.4)  # far below stall_after: it is the burst that has to be noticed
        for number in range(13):
            line.send(mjpeg.part(mjpeg.jpeg(number)))
        over.set()
        line.wait(0.03)
        line.pictures(iter(range(1000)), period_s=0.03)

    with mjpeg.mjpeg(script) as server:
        agent = gateway(server.url, deadline="300ms")  # what is older is stale
        eventually(over.is_set, what="the burst")
        before = len(agent.answers)
        eventually(lambda: len(agent.answers) > before + 10, what="answers to fresh pictures")
        summary = agent.stop()
    assert stalled.is_set()
    assert 10 <= summary["frames"]["shed"]["stale_source"] <= 13
    assert summary["streams"]["door"]["stale"] == summary["frames"]["shed"]["stale_source"]
    with (agent.run_dir / "frames.jsonl").open() as file:
        reasons = [json.loads(line).get("reason") for line in file]
    assert reasons.count("stale_source") == summary["frames"]["shed"]["stale_source"]


def test_a_camera_that_changes_its_size_is_answered_in_every_size(gateway):
    def script(line):
        line.send(mjpeg.HEAD)
        line.pictures(range(20))
        line.pictures(range(20), width=160, height=120)
        line.pictures(iter(range(10_000)), width=96, height=80)

    with mjpeg.mjpeg(script) as server:
        agent = gateway(server.url)
        agent.wait_answers(60)
        summary = agent.stop()
    assert {answer["answered_by"] for answer in agent.answers} == {"near"}
    assert summary["streams"]["door"]["size"] == "96x80"


def test_a_camera_that_appears_after_the_link_is_answered_far_without_its_size_being_configured(tmp_path):
    """F16: at Hello its size is not known."""
    camera_port, worker_port = free_port(), free_port()
    worker_yaml, agent_yaml = tmp_path / "worker.yaml", tmp_path / "pipeline.yaml"
    worker_yaml.write_text(WORKER.format(root=tmp_path, port=worker_port))
    agent_yaml.write_text(FAR_ONLY.format(root=tmp_path, url=address(camera_port), port=worker_port))
    worker = Process(["cloud", str(worker_yaml)], tmp_path / "worker.log")
    agent = Process(["edge", str(agent_yaml)], tmp_path / "agent.log")
    try:
        worker.wait_ready()
        agent.wait_ready()

        def said():
            return agent.log.read_text()

        eventually(lambda: "refuses connections" in said(), 10, "the agent without its camera")
        with mjpeg.mjpeg(port=camera_port):
            eventually(
                lambda: sum(line.get("answered_by") == "far" for line in agent.lines) >= 20,
                15,
                f"far answers; {said()[-1500:]}",
            )
            assert agent.stop() == 0
        assert worker.stop() == 0
    finally:
        agent.end()
        worker.end()

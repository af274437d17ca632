"""The answer socket of a real agent, read by a program next door."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.eventually import eventually
from tests.support.rig import rig


def test_the_program_next_door_gets_every_answer_the_agent_gives_and_the_end_of_it(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as home, rig(tmp_path, policy="near_only") as house:
        path = Path(home) / "answers.sock"
        house.start_agent("--set", f"sinks=[{{kind: stdout}}, {{kind: socket, path: {path}}}]")
        with socket.socket(socket.AF_UNIX) as idle, socket.socket(socket.AF_UNIX) as reader:
            idle.connect(os.fspath(path))  # never reads
            reader.connect(os.fspath(path))
            reader.settimeout(10)
            with reader.makefile("rb") as lines:
                seen = [json.loads(next(lines)) for _ in range(25)]
                eventually(lambda: len(house.answers) >= seen[-1]["seq"], 5.0, "the same answers on stdout")
                summary = house.stop_agent()
                seen += [json.loads(line) for line in lines]
        by_seq = {line["seq"]: line for line in house.seen}
        assert [line for line in seen if line != by_seq[line["seq"]]] == []
        # From the first it got on, all that stdout got, in that order; frames that were shed have no answer.
        first = seen[0]["seq"]
        assert [line["seq"] for line in seen] == [line["seq"] for line in house.seen if line["seq"] >= first]
        assert summary["sinks"]["socket"]["written"] == len(by_seq)
        assert not path.exists()


def test_an_agent_refuses_a_socket_that_another_one_serves(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as home, socket.socket(socket.AF_UNIX) as other:
        path = Path(home) / "answers.sock"
        other.bind(os.fspath(path))
        other.listen()
        pipeline = tmp_path / "pipeline.yaml"
        pipeline.write_text(
            "version: 1\nstreams: {cam: {source: {kind: synthetic, count: 5}}}\n"
            f"near: {{detector: {{kind: synthetic}}}}\nsinks: [{{kind: socket, path: {path}}}]\n"
        )
        done = subprocess.run(
            [sys.executable, "-m", "nearfar", "edge", str(pipeline)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 2
        assert "is served by another program that runs now" in done.stderr
        assert path.exists()

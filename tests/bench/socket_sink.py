"""How long after its release an answer is in the hands of the program next door.

A reader in a process of its own, beside fourteen others and one that never reads; 100 answers a second of twenty
boxes each, through the sink's thread as the dispatcher hands them over.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from edge.sinks.base import SinkThread
from edge.sinks.unix_socket import UnixSocketSink
from pipelines import runtime
from pipelines.result import Detections
from tests.bench.report import Report, run, summary_ms
from tests.support.answers import answer
from tests.support.eventually import eventually

BOXES = 20
READER = """
import json, socket, sys, time
reader = socket.socket(socket.AF_UNIX)
reader.connect(sys.argv[1])
print("connected", flush=True)
seen = {}
for line in reader.makefile("rb"):
    at = time.monotonic_ns() // 1000
    seen[json.loads(line)["seq"]] = at
print(json.dumps(seen))
"""


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """Latency from release to a reader, with a reader beside it that never reads."""
    count = 500 if arguments.quick else 3000
    runtime.tune()
    detections = Detections(
        np.zeros((BOXES, 4), np.float32), np.zeros(BOXES, np.float32), np.zeros(BOXES, np.uint16), ("person",)
    )
    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / "s"
        sink = UnixSocketSink(path=path)
        thread = SinkThread(sink, name="socket")
        thread.start()
        beside = [socket.socket(socket.AF_UNIX) for _ in range(15)]
        for other in beside:
            other.connect(os.fspath(path))
        popen = subprocess.Popen([sys.executable, "-c", READER, str(path)], stdout=subprocess.PIPE, text=True)
        assert popen.stdout is not None
        popen.stdout.readline()
        eventually(lambda: sink.readers == 16, what="every reader")
        released_us = {}
        for seq in range(1, count + 1):
            if seq % 10 == 0:
                for other in beside[1:]:
                    other.recv(1 << 20)
            given = answer(seq, detections=detections)
            released_us[seq] = runtime.monotonic_us()
            thread.offer(given)
            time.sleep(0.01)
        thread.close()
        seen = json.loads(popen.stdout.read())
        popen.wait(10)
        popen.stdout.close()
        for other in beside:
            other.close()
    took = [seen[str(seq)] - released_us[seq] for seq in released_us if str(seq) in seen]
    report.figures["release_to_reader_ms"] = summary_ms(took)
    report.figures["missed_by_the_reader_that_never_reads"] = sink.missed
    report.at_least("answers at the healthy reader", count, len(took))
    report.at_most("release to a healthy reader, p50 ms", 1.0, report.figures["release_to_reader_ms"]["p50"])
    report.at_most("release to a healthy reader, p99 ms", 5.0, report.figures["release_to_reader_ms"]["p99"])


if __name__ == "__main__":
    run("socket_sink", measure)

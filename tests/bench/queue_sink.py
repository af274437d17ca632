"""What a queue costs who answers, how soon an answer is safe on disk, and how fast a backlog goes out.

100 answers a second of twenty boxes each while the receiver is away, then the whole backlog to a web server and to a
broker (if mosquitto is installed) in processes of their own, at 0 ms of network.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edge.sinks.base import SinkThread
from edge.sinks.delivery.postman import Postman
from edge.sinks.delivery.queue import QueueSink
from edge.sinks.delivery.spool import Spool
from edge.sinks.delivery.spool_file import SpoolFile
from edge.sinks.place import Place
from edge.sinks.webhook import WebhookCourier
from pipelines import runtime
from pipelines.result import Answer, Detections
from tests.bench.report import Report, run, summary_ms
from tests.support.answers import answer
from tests.support.broker import MOSQUITTO, Broker
from tests.support.eventually import eventually
from tests.support.rig import free_port
from tests.support.sinks import sink, sink_config

BOXES = 20
DETECTIONS = Detections(
    np.zeros((BOXES, 4), np.float32), np.zeros(BOXES, np.float32), np.zeros(BOXES, np.uint16), ("person",)
)
RECEIVER = """
import sys
from tests.support.receiver import Receiver
with Receiver(port=int(sys.argv[1])) as receiver:
    print("listens", flush=True)
    sys.stdin.read()
"""


class TimedSpool(Spool):
    """Remembers when each answer was kept."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.kept_us: dict[int, int] = {}

    def put(self, answers: Sequence[Answer]) -> None:
        super().put(answers)
        now_us = runtime.monotonic_us()
        self.kept_us.update((given.id.seq, now_us) for given in answers)


def live(report: Report, folder: Path, count: int) -> None:
    """`count` answers at 100/s into a durable queue whose receiver is away."""
    config = sink_config(kind="webhook", url=f"http://127.0.0.1:{free_port()}/")
    place = Place(name="webhook", agent="gw", run=bytes(16), folder=folder)
    file = SpoolFile(folder / "live.db")
    spool = TimedSpool(max_bytes=1 << 30, max_age_us=3_600_000_000, clock_us=runtime.monotonic_us, file=file)
    postman = Postman(spool, WebhookCourier.from_config(config, place), name="webhook", batch=64)
    thread = SinkThread(QueueSink(spool=spool, postman=postman, durable=True), name="webhook")
    thread.start()
    offer_us, offered_us = [], {}
    for seq in range(1, count + 1):
        given = answer(seq, detections=DETECTIONS)
        before_us = runtime.monotonic_us()
        thread.offer(given)
        offered_us[seq] = before_us
        offer_us.append(runtime.monotonic_us() - before_us)
        time.sleep(0.01)
    thread.close(5.0)
    kept_us = [spool.kept_us[seq] - offered_us[seq] for seq in offered_us if seq in spool.kept_us]
    report.figures["offer_ms"] = summary_ms(offer_us)
    report.figures["offer_to_disk_ms"] = summary_ms(kept_us)
    report.figures["flash_bytes_per_answer"] = file.flash_bytes // count
    report.at_least("answers kept", count, len(kept_us))
    report.at_most("offer, p99 ms", 0.5, report.figures["offer_ms"]["p99"])
    report.at_most("offer to disk, p99 ms", 75.0, report.figures["offer_to_disk_ms"]["p99"])


def backlog(folder: Path, count: int, **settings: Any) -> float:
    """Answers per second that leave a durable queue of `count` once the receiver is there."""
    queue = {"max_bytes": "1GiB"}
    made = sink(folder, durable=True, batch=64, queue=queue, **settings)
    for first in range(1, count + 1, 100):
        for seq in range(first, first + 100):
            made.write(answer(seq, detections=DETECTIONS))
        made.flush()
    already = made.sight().spool.delivered
    begun = time.monotonic()
    eventually(lambda: made.drained, 300.0, "an empty queue")
    took_s = time.monotonic() - begun
    delivered: int = made.sight().spool.delivered - already
    made.close()
    return delivered / took_s


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """Cost of a durable queue, and its rate when it is emptied."""
    count = 500 if arguments.quick else 3000
    runtime.tune()
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        live(report, folder, count)
        port = free_port()
        receiver = subprocess.Popen(
            [sys.executable, "-c", RECEIVER, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        with receiver:
            assert receiver.stdout is not None
            receiver.stdout.readline()
            rate = backlog(folder, 4 * count, kind="webhook", url=f"http://127.0.0.1:{port}/")
        report.figures["webhook_backlog_per_s"] = round(rate)
        report.at_least("backlog to a web server, answers/s", 480, round(rate))
        if shutil.which(MOSQUITTO):
            with Broker(folder) as broker:
                rate = backlog(folder, 4 * count, kind="mqtt", url=broker.url)
            report.figures["mqtt_backlog_per_s"] = round(rate)
            report.at_least("backlog to a broker, answers/s", 480, round(rate))


if __name__ == "__main__":
    run("queue_sink", measure)

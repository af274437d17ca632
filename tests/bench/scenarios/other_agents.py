"""Other agents at the same worker, on its own side of the link: together they send twice what it can do.

python -m tests.bench.scenarios.other_agents --url zmq://127.0.0.1:7440 --per-s 70
"""

import argparse
import secrets
import time

import cv2
import numpy as np

from edge.links.base import LinkEvent
from edge.links.kinds import LINKS
from edge.scheduling.rung import Rung
from nearfar import process
from pipelines import runtime
from pipelines.codecs.jpeg import JpegCodec
from pipelines.runtime import monotonic_us
from protos.wire.live import FrameBody, FrameHead
from protos.wire.session import Hello, Lane, StreamInfo
from tests.bench.scenarios.clip_cache import FAR_INPUT
from tests.bench.vtest_accuracies import CLIP

AGENTS = 2
BUDGET_US = 250_000
QUALITY, SCALE = 20, 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--per-s", type=float, required=True, help="frames a second of all together")
    arguments = parser.parse_args()
    stop = process.stop_on_signals()
    runtime.tune()
    clip = cv2.VideoCapture(str(CLIP))
    picture = np.asarray(clip.read()[1], np.uint8)
    clip.release()
    height, width = picture.shape[:2]
    size = Rung(codec="jpeg", quality=QUALITY, scale=SCALE, accuracy=0.0).size_px((width, height), FAR_INPUT)
    payload, encoding = JpegCodec().encode(picture, quality=QUALITY, size=size)
    (kind,) = (kind for kind in LINKS if arguments.url.startswith(f"{kind.name}://"))
    links = []
    for number in range(AGENTS):
        link = kind.resolve()(name=f"other-{number}", url=arguments.url, clock_us=monotonic_us)
        hello = Hello(
            agent=f"other-{number}",
            run=secrets.token_bytes(16),
            lane=Lane.LIVE,
            streams=(StreamInfo(name="street", width_px=width, height_px=height),),
            model="",
            software="bench",
        )
        link.start(hello, _ignored)
        links.append(link)
    process.ready()
    seq, begun_s = 0, time.monotonic()
    while not stop.wait(max(0.0, begun_s + seq / arguments.per_s - time.monotonic())):
        seq += 1
        head = FrameHead(
            stream=0,
            seq=seq,
            worker_budget_us=BUDGET_US,
            sent_mono_us=monotonic_us(),
            encoding=encoding,
            source_width_px=width,
            source_height_px=height,
        )
        links[seq % AGENTS].send(head, FrameBody(stream=0, seq=seq, data=payload))
    for link in links:
        link.close()


def _ignored(_event: LinkEvent) -> None:
    """What the worker says to others is nobody's business here."""


if __name__ == "__main__":
    main()

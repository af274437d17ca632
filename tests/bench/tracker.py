"""What carrying an answer forward costs: the flow tracker on 640x480 pictures, CPU time of its one thread.

Real people of ../shared walk through; without the clip, a wide picture is panned over. An answer with 8 or 20 boxes is
renewed every 6 frames and carried to every frame between, or at once to the last of them. `looks` is the small gray
copy alone: what a frame costs while nobody needs the tracker.
"""

import argparse
import itertools
import time
from pathlib import Path

import cv2
import numpy as np

from pipelines.frame import Picture
from pipelines.result import Detections
from pipelines.trackers.base import Base
from pipelines.trackers.flow import FlowTracker
from tests.bench.report import Report, run, summary_ms

CLIP = Path(__file__).parents[3] / "shared/data/video/vtest.avi"
SIZE = (640, 480)
MOST_MS = 5.0
EVERY = 6
BOXES = (8, 20)


def pictures(count: int) -> list[Picture]:
    if CLIP.is_file():
        clip = cv2.VideoCapture(str(CLIP))
        read = [np.asarray(clip.read()[1], np.uint8) for _ in range(count)]
        clip.release()
        return [np.asarray(cv2.resize(picture, SIZE), np.uint8) for picture in read]
    dice = np.random.default_rng(1)
    wide = cv2.GaussianBlur(dice.integers(0, 255, (480, 640 + count * 4, 3), np.uint8), (0, 0), 3)
    return [np.ascontiguousarray(wide[:, 4 * i : 4 * i + 640], np.uint8) for i in range(count)]


def boxes(count: int) -> Detections:
    """Of a person's size, spread over the picture."""
    index = np.arange(count)
    left, top = (37 + index * 131) % 560, (29 + index * 83) % 360
    corners = np.stack([left, top, left + 50, top + 100], axis=1).astype(np.float32)
    return Detections(corners, np.full(count, 0.9, np.float32), np.zeros(count, np.uint16), ("person",))


def measure(report: Report, arguments: argparse.Namespace) -> None:
    cv2.setNumThreads(1)
    shown = pictures(120 if arguments.quick else 600)
    for count, every_frame in itertools.product(BOXES, (True, False)):
        tracker = FlowTracker(max_age=EVERY)
        looks_us, carries_us, lost = [], [], 0
        for seq, picture in enumerate(shown, start=1):
            begun_us = time.thread_time_ns() / 1000
            tracker.see(seq, picture, captured_us=seq, oldest=seq)
            seen_us = time.thread_time_ns() / 1000
            if (seq - 1) % EVERY == 0:
                tracker.rebase(Base(seq=seq, detections=boxes(count), worth=1.0))
                continue
            if not every_frame and seq % EVERY:
                continue
            lost += tracker.carry(seq) is None
            looks_us.append(seen_us - begun_us)
            carries_us.append(time.thread_time_ns() / 1000 - begun_us)
        words = f"{count} boxes, {'every frame' if every_frame else f'{EVERY - 1} frames at once'}"
        report.figures[f"looks, {words} (ms)"] = summary_ms(looks_us)
        report.figures[f"carried, {words} (ms)"] = summary_ms(carries_us) | {"lost": lost}
        report.at_most(f"carried, {words}: p99 in ms", MOST_MS, summary_ms(carries_us)["p99"])


if __name__ == "__main__":
    run("tracker", measure)

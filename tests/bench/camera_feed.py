"""A 1080p camera over a yard as a program: MJPEG over HTTP, somebody walks through it two thirds of the time.

`python -m tests.bench.camera_feed PORT FPS` prints its address and serves until it is killed. A walk never
repeats, so that no gate takes it for the scene.
"""

import sys
import threading
import time

import cv2
import numpy as np

from tests.support.mjpeg import HEAD, Line, mjpeg, part

WIDTH_PX, HEIGHT_PX = 1920, 1080
PERSON_PX = (140, 380)
PHASE_S = 5  # two phases of walking, one of nothing


def yards(dice: np.random.Generator) -> list[np.ndarray]:
    """The yard with the sensor noise of four moments."""
    blocks = dice.integers(60, 160, (HEIGHT_PX // 8, WIDTH_PX // 8, 3)).repeat(8, 0).repeat(8, 1)
    yard = cv2.blur(blocks.astype(np.uint8), (9, 9)).astype(np.int16)
    noises = (dice.integers(-4, 5, yard.shape, np.int16) for _ in range(4))
    return [np.clip(yard + noise, 0, 255).astype(np.uint8) for noise in noises]


def walking(at_s: float) -> bool:
    return int(at_s / PHASE_S) % 3 < 2


def main(port: int, fps: float) -> None:
    dice = np.random.default_rng(11)
    scenes = yards(dice)
    width, height = PERSON_PX

    def play(line: Line) -> None:
        line.send(HEAD)
        begun, number, left, top = time.monotonic(), 0, 0, 300
        while True:
            picture = scenes[number % len(scenes)].copy()
            if walking(number / fps):
                left += int(dice.integers(8, 30))
                if left > WIDTH_PX - width:
                    left, top = 0, int(dice.integers(0, HEIGHT_PX - height))
                picture[top : top + height, left : left + width] = (20, 30, 230)
            jpeg = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 80])[1]
            line.send(part(bytes(jpeg)))
            number += 1
            line.wait(begun + number / fps - time.monotonic())

    with mjpeg(play, port=port) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))

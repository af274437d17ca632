"""Boxes come back where the things are, in the pixels of the frame as it was captured, over every wire."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cloud.listeners.kinds import LISTENERS
from pipelines.codecs.jpeg import JpegCodec
from pipelines.detectors.base import CancelToken
from pipelines.frame import Picture
from pipelines.result import Detections
from protos.wire.live import FrameBody, FrameHead, Result
from protos.wire.session import StreamInfo, Welcome
from tests.support.agents import HELLO, Agent, agent
from tests.support.workers import clock_us, service

KINDS = [kind.name for kind in LISTENERS]
FAR_INPUT = (320, 240)
JPEG_PX = 4.0  # how far compression and scaling may move an edge, in pixels of the encoding


class BrightDetector:
    """One box around what is bright."""

    name = "bright@320x240"
    labels = ("bright",)
    input_size = FAR_INPUT
    sha256 = "cd" * 32

    def detect(self, picture: Picture, cancel: CancelToken | None = None) -> Detections:
        rows, columns = np.nonzero(picture.mean(axis=2) > 128)
        box = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        return Detections(
            np.array([box], np.float32), np.ones(1, np.float32), np.zeros(1, np.uint16), self.labels
        )


def painted(size: tuple[int, int], place: tuple[int, int, int, int]) -> Picture:
    picture = np.zeros((size[1], size[0], 3), np.uint8)
    x1, y1, x2, y2 = place
    picture[y1:y2, x1:x2] = 255
    return picture


def found(gateway: Agent, seq: int, picture: Picture, *, said: bool = True) -> list[float]:
    """Where the worker sees the bright place of a frame that is encoded at the far model's input."""
    data, encoding = JpegCodec().encode(picture, quality=90, size=FAR_INPUT)
    head = FrameHead(
        stream=0, seq=seq, worker_budget_us=5_000_000, sent_mono_us=clock_us(), encoding=encoding
    )
    if said:
        head = replace(head, source_width_px=picture.shape[1], source_height_px=picture.shape[0])
    gateway.send(head, FrameBody(stream=0, seq=seq, data=data))
    result = gateway.until(Result)
    assert result.seq == seq
    return [float(x) for x in result.detections.boxes[0]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hello_px", [(0, 0), (640, 480)], ids=["size not known at Hello", "known at Hello"])
def test_boxes_are_in_pixels_of_each_frame_whatever_the_hello_said_and_when_the_camera_changes(
    kind: str, hello_px: tuple[int, int], tmp_path: Path
) -> None:
    streams = (StreamInfo(name="door", width_px=hello_px[0], height_px=hello_px[1]),)
    with service(tmp_path, build=BrightDetector, codecs={"jpeg": JpegCodec()}) as (made, store):
        listener = LISTENERS[kind].resolve()(made, address="127.0.0.1:0", clock_us=clock_us)
        listener.start()
        try:
            with agent(listener.address) as gateway:
                gateway.send(replace(HELLO, streams=streams))
                gateway.until(Welcome)
                for seq, (size, place) in enumerate(
                    [
                        ((640, 480), (64, 120, 192, 240)),
                        ((1280, 720), (640, 90, 960, 360)),  # the camera was set to another size
                        ((320, 240), (32, 60, 96, 120)),
                    ],
                    1,
                ):
                    off_px = JPEG_PX * size[0] / FAR_INPUT[0]
                    assert found(gateway, seq, painted(size, place)) == pytest.approx(place, abs=off_px)
                in_encoding = found(gateway, 4, painted((640, 480), (64, 120, 192, 240)), said=False)
                assert in_encoding == pytest.approx((32, 60, 96, 120), abs=JPEG_PX)
        finally:
            listener.stop()
        assert made.drain(5_000_000)
        kept = {row.id.seq: row.best for row in store.rows()}
        assert kept[2] is not None
        assert [float(x) for x in kept[2].boxes[0]] == pytest.approx((640, 90, 960, 360), abs=JPEG_PX * 4)

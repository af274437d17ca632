"""Pictures of 16 bits through a whole agent, and payloads that are not what they say at a whole worker."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import zstandard

from cloud.limits import ServiceLimits
from pipelines.codecs.base import Codec
from pipelines.codecs.jpeg import JpegCodec
from pipelines.codecs.png import PngCodec
from pipelines.codecs.zstd import ZstdCodec
from pipelines.detectors.base import CancelToken
from pipelines.frame import Encoding, Picture
from pipelines.pictures import for_detector
from pipelines.result import Detections
from protos.wire.live import Reject, Result
from protos.wire.session import Error, RejectReason
from tests.support.gateway import gateway
from tests.support.rigs import Rig
from tests.support.workers import GatedDetector, service

CODECS: dict[str, Codec] = {"jpeg": JpegCodec(), "png": PngCodec(), "zstd": ZstdCodec()}
PIPELINE = """\
streams:
  kiln: {{source: {{kind: images, path: {{root}}/kiln, fps: 50, frames: every}}}}
near:
  detector: {{kind: synthetic, delay: 1ms, labels: [thing]}}
  accuracy: 0.4
scheduler:
  ladder: [%s]
"""


def thermal(i: int) -> Picture:
    rows, columns = np.mgrid[0:96, 0:128]
    return np.asarray(29_000 + 4 * columns + 3 * rows + 40 * i, np.uint16)


class Eye:
    """Remembers what it saw."""

    name, labels, input_size, sha256 = "eye@128x96", ("thing",), (128, 96), "ab" * 32

    def __init__(self) -> None:
        self.seen: list[Picture] = []

    def detect(self, picture: Picture, _cancel: CancelToken | None = None) -> Detections:
        self.seen.append(picture)
        return Detections(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.uint16))


def kiln(root: Path, count: int = 12) -> None:
    folder = root / "kiln"
    folder.mkdir(parents=True)
    for i in range(count):
        cv2.imwrite(str(folder / f"{i}.png"), thermal(i))


@pytest.mark.parametrize("codec", ["zstd", "png"])
def test_a_lossless_rung_brings_the_far_detector_what_the_camera_saw(tmp_path: Path, codec: str) -> None:
    root, eye = tmp_path / "house", Eye()
    kiln(root)
    with gateway(
        root,
        (PIPELINE % f"{{{{codec: {codec}}}}}").replace("{{root}}", "{root}"),
        build=lambda: eye,
        codecs=CODECS,
    ) as made:
        summary = made.run()
        far = [line for line in made.lines() if line["answered_by"] == "far"]
    assert len(far) >= 6
    assert summary["frames"]["missed"] == 0
    assert {(line["encoding"]["codec"], line["encoding"]["quality"]) for line in far} == {(codec, 0)}
    captured = [for_detector(thermal(i)) for i in range(12)]
    for picture in eye.seen:
        assert any(np.array_equal(picture, seen) for seen in captured)


def test_16_bits_on_a_jpeg_rung_are_answered_near_with_the_reason_said_once(tmp_path: Path, caplog) -> None:
    caplog.set_level("WARNING")
    root, eye = tmp_path / "house", Eye()
    kiln(root)
    with gateway(
        root, (PIPELINE % "{{codec: jpeg}}").replace("{{root}}", "{root}"), build=lambda: eye, codecs=CODECS
    ) as made:
        summary = made.run()
        lines = made.lines()
    assert summary["frames"]["near"] == 12
    assert eye.seen == []
    assert any("not encoded: JPEG carries 8 bits per channel" in line["reason"] for line in lines)
    said = [r.message for r in caplog.records if "cannot be offloaded" in r.message]
    assert len(said) == 1
    assert said[0].startswith(
        "stream kiln cannot be offloaded, near answers: JPEG carries 8 bits per channel"
    )


# -- the worker -----------------------------------------------------------------------------------------------

BOMB_BYTES = 400 << 20


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    detector = GatedDetector()
    limits = ServiceLimits(bytes_in_flight=64 << 20)
    with service(tmp_path, build=lambda: detector, codecs=CODECS, limits=limits) as (made, store):
        yield Rig(made, store, detector)


def send(rig: Rig, seq: int, data: bytes, encoding: Encoding) -> None:
    rig.head(seq, encoding=encoding)
    rig.body(seq, data)


def good_frame_is_answered(rig: Rig, seq: int) -> None:
    data, encoding = CODECS["zstd"].encode(thermal(0), quality=0)
    before = len(rig.peer.all(Result))
    send(rig, seq, data, encoding)
    rig.peer.wait(Result, before + 1)


def test_400_kb_that_inflate_to_400_mb_are_refused_and_counted_and_the_connection_serves_on(rig: Rig) -> None:
    # F10
    rig.welcome()
    bomb = zstandard.ZstdCompressor(level=1).compress(bytes(BOMB_BYTES))
    assert len(bomb) < 500_000
    huge = Encoding(
        codec="zstd",
        quality=0,
        width_px=20_000,
        height_px=10_485,
        channels=1,
        bits=16,
        body_bytes=len(bomb),
    )
    send(rig, 1, bomb, huge)
    (honest,) = rig.peer.wait(Reject)
    assert honest.reason is RejectReason.TOO_LARGE
    send(rig, 2, bomb, replace(huge, width_px=128, height_px=96))
    _, lying = rig.peer.wait(Reject, 2)
    assert lying.reason is RejectReason.BAD_PAYLOAD
    assert f"says {BOMB_BYTES} bytes" in lying.text
    assert rig.detector.runs == 0
    assert rig.service.metrics.value("nearfar_worker_rejects_total", reason="bad_payload") == 1
    assert rig.peer.all(Error) == []
    good_frame_is_answered(rig, 3)


@pytest.mark.parametrize(
    "lie", [{"channels": 0}, {"channels": 4}, {"bits": 0}, {"bits": 12}, {"bits": 32}], ids=str
)
def test_a_picture_no_codec_has_is_refused_on_its_head(rig: Rig, lie) -> None:
    rig.welcome()
    sound = Encoding(codec="png", quality=0, width_px=8, height_px=8, body_bytes=10)
    rig.head(1, encoding=replace(sound, **lie))
    assert rig.peer.only(Reject).reason is RejectReason.BAD_PAYLOAD
    good_frame_is_answered(rig, 2)


def test_detectors_of_the_worker_see_8_bit_colour_whatever_the_camera_gave(tmp_path: Path) -> None:
    eye = Eye()
    with service(tmp_path, build=lambda: eye, codecs=CODECS) as (made, store):
        rig = Rig(made, store, GatedDetector())
        rig.welcome()
        gray = np.full((96, 128), 77, np.uint8)
        for seq, codec in enumerate(CODECS, 1):
            data, encoding = CODECS[codec].encode(gray, quality=90)
            send(rig, seq, data, encoding)
        rig.peer.wait(Result, 3)
    assert [picture.shape for picture in eye.seen] == [(96, 128, 3)] * 3
    assert all(picture.dtype == np.uint8 and abs(int(picture[5, 5, 0]) - 77) <= 1 for picture in eye.seen)

"""Payloads made to hurt: the worker refuses them at once, for their frame only."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipelines.codecs.jpeg import JpegCodec
from protos.wire.live import Reject, Result
from protos.wire.session import RejectReason
from tests.support.rigs import Rig
from tests.support.workers import GatedDetector, service


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    detector = GatedDetector()
    with service(tmp_path, build=lambda: detector, codecs={"jpeg": JpegCodec()}) as (made, store):
        try:
            yield Rig(made, store, detector)
        finally:
            detector.gate.set()


def test_a_jpeg_of_a_thousand_scans_is_rejected_for_its_frame_and_the_connection_kept(rig: Rig) -> None:
    """F10"""
    data, encoding = JpegCodec().encode(np.zeros((480, 640, 3), np.uint8), quality=80)
    at = data.index(b"\xff\xda")
    scan = data[at : at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")]
    bomb = data[:-2] + scan * 1000 + data[-2:]
    rig.welcome()
    rig.head(1, encoding=replace(encoding, body_bytes=len(bomb)))
    rig.body(1, bomb)
    (reject,) = rig.peer.wait(Reject)
    assert (reject.seq, reject.reason) == (1, RejectReason.BAD_PAYLOAD)
    assert "1001 scans" in reject.text
    rig.head(2, encoding=encoding)
    rig.body(2, data)
    (result,) = rig.peer.wait(Result)
    assert result.seq == 2
    assert rig.errors() == []

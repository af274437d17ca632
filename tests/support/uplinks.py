"""Uplink rules as they are written, and the answers they judge."""

import numpy as np

from edge.archive.assembly import rule_of
from edge.archive.rules import UplinkRules
from edge.config.uplink import UplinkConfig
from pipelines.frame import FrameId
from pipelines.result import AnsweredBy, Detections, Record, Status

SECOND = 1_000_000
SIZE = (64, 48)


def answer(
    seq: int, *boxes: tuple[str, float], by: AnsweredBy = AnsweredBy.NEAR, stream: str = "door"
) -> Record:
    labels = ("car", "person")
    seen = Detections(
        np.tile(np.array([[0, 0, 32, 24]], np.float32), (len(boxes), 1)),
        np.array([score for _, score in boxes], np.float32),
        np.array([labels.index(label) for label, _ in boxes], np.uint16),
        labels,
    )
    return Record(
        id=FrameId("gw", bytes(16), stream, seq),
        answered_by=by,
        status=Status.OK,
        detections=None if by is AnsweredBy.MISSED else seen,
    )


def rules(*written: dict[str, object]) -> UplinkRules:
    return UplinkRules([rule_of(rule) for rule in UplinkConfig.model_validate({"rules": written}).rules])


BOTH = ["result", "payload"]

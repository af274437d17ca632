"""A record as the columns of its row."""

import json

import pytest

from cloud.store.row import far_row
from pipelines.frame import FrameId
from pipelines.result import AnsweredBy, Record, Status


@pytest.mark.parametrize(
    "timing_us",
    [{}, {"queue": 5}, {"queue": 5, "decode": 0, "transfer": -3}, {'a "name"': 1, "ü\n": 2**62, "\\": 3}],
)
def test_times_are_kept_as_json_by_name_whatever_they_are_called(timing_us: dict[str, int]) -> None:
    record = Record(
        id=FrameId("gw", bytes(16), "cam", 1),
        answered_by=AnsweredBy.FAR,
        status=Status.OK,
        timing_us=timing_us,
    )
    kept = far_row(record, now_unix_us=1)["far_timing_us"]
    assert kept == json.dumps(timing_us, sort_keys=True)
    assert json.loads(kept) == timing_us

"""The time axis of a report, and fewer points that tell the same story."""

import numpy as np
import pytest

from nearfar.report.axis import Axis
from nearfar.report.thin import evenly, peaks
from tests.support.run_dirs import (
    START_MS,
)


@pytest.mark.parametrize("span_s", [0, 0.04, 44, 3_600, 86_400, 40 * 86_400])
def test_the_time_axis_has_a_bounded_number_of_buckets_and_a_unit_people_read(span_s):
    axis = Axis.over(start_ms=START_MS, end_ms=START_MS + span_s * 1000)
    times = np.linspace(axis.start_ms, axis.end_ms, 1000)
    assert axis.bucket_count <= 152
    assert axis.buckets(times).min() >= 0
    assert axis.buckets(times).max() < axis.bucket_count
    assert axis.end <= 700


def test_thinning_keeps_first_last_peaks_and_gaps():
    marked = np.zeros(10_000, bool)
    marked[100:9_100] = True
    some = evenly(marked, 50)
    assert (len(some), some[0], some[-1]) == (50, 100, 9_099)
    values = np.ones(1_000)
    values[333] = 9.0
    values[600:700] = np.nan
    kept = values[peaks(values, 100)]
    assert len(kept) <= 100
    assert np.nanmax(kept) == 9.0
    assert np.isnan(kept).sum() == 10

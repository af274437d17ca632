"""What the load benchmark is made of: arrivals at the rate asked for, a picture that is one, shares as one index."""

import itertools
import random

import pytest

from pipelines.codecs.base import PictureLimits
from pipelines.codecs.jpeg import JpegCodec
from pipelines.result import WorkerTiming
from tests.bench.load.arrivals import ARRIVALS
from tests.bench.load.picture import padded_jpeg
from tests.bench.load.worker import REJECT, quantile_ms
from tests.bench.worker import overheads_us
from tests.support.jain import jain


@pytest.mark.parametrize("name", ARRIVALS)
def test_arrivals_have_the_mean_rate_they_are_asked_for(name):
    counts = []
    for seed in range(40):
        at_s, count = 0.0, 0
        for gap_s in ARRIVALS[name](50.0, random.Random(seed)):
            at_s += gap_s
            if at_s > 20.0:
                break
            count += 1
        counts.append(count)
    assert sum(counts) / (40 * 20.0) == pytest.approx(50.0, rel=0.05)


def test_bursts_are_denser_than_chance():
    """Index of dispersion of the counts in windows of 100 ms: 1 for Poisson."""

    def dispersion(name):
        counts = [0] * 2000
        times = itertools.accumulate(ARRIVALS[name](50.0, random.Random(1)))
        for at_s in itertools.takewhile(lambda t: t < 200.0, times):
            counts[int(at_s / 0.1)] += 1
        mean = sum(counts) / len(counts)
        return sum((count - mean) ** 2 for count in counts) / len(counts) / mean

    assert dispersion("poisson") == pytest.approx(1.0, rel=0.15)
    assert dispersion("bursty") > 3.0


@pytest.mark.parametrize("size_bytes", [2_000, 30_000, 150_000])
def test_the_padded_picture_is_as_long_as_wanted_and_every_decoder_takes_it(size_bytes):
    body, encoding = padded_jpeg(size_bytes)
    assert size_bytes - 4 <= len(body) == encoding.body_bytes <= size_bytes
    picture = JpegCodec().decode(body, encoding, PictureLimits(pixels=10_000, decoded_bytes=100_000))
    assert picture.shape == (48, 64, 3)


def test_the_index_is_one_for_equal_shares_and_one_over_n_for_a_single_winner():
    assert jain([3.0] * 7) == pytest.approx(1.0)
    assert jain([0.0, 0.0, 0.0, 8.0]) == pytest.approx(0.25)


def test_a_quantile_between_two_looks_is_the_upper_bound_of_its_bucket():
    def page(*counts):
        bounds = ("0.001", "0.005", "+Inf")
        return {f'{REJECT}_bucket{{le="{le}"}}': float(n) for le, n in zip(bounds, counts, strict=True)}

    before, after = page(100, 100, 100), page(150, 199, 200)
    assert quantile_ms(before, after, 0.5) == 1.0
    assert quantile_ms(before, after, 0.99) == 5.0
    assert quantile_ms(before, after, 1.0) == float("inf")
    assert quantile_ms(after, after, 0.99) == 0.0


def test_what_a_queue_adds_is_neither_the_wait_for_a_busy_instance_nor_the_run():
    first = WorkerTiming(
        head_mono_us=0, body_mono_us=1_000, queue_us=200, decode_us=100, detect_us=5_000, resident_us=5_330
    )
    second = WorkerTiming(  # ready at 2000, waits for the first to end at 6300, and begins 250 µs later
        head_mono_us=0, body_mono_us=2_000, queue_us=4_450, decode_us=100, detect_us=5_000, resident_us=9_600
    )
    assert overheads_us([second, first]) == [200 + 30, 250 + 50]

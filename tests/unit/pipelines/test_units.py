"""Values with units read as one number, dump as text, and refuse to be guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from pipelines import units

DURATION: TypeAdapter[int] = TypeAdapter(units.Duration)
SIZE: TypeAdapter[int] = TypeAdapter(units.Size)
EXTENT: TypeAdapter[tuple[int, int]] = TypeAdapter(units.Extent)
FRACTION: TypeAdapter[float] = TypeAdapter(units.Fraction)


@pytest.mark.parametrize(
    ("text", "value_us"),
    [
        ("100ms", 100_000),
        ("1.5s", 1_500_000),
        ("2h", 7_200_000_000),
        ("30d", 2_592_000_000_000),
        ("5m", 300_000_000),
        ("250us", 250),
        ("0ms", 0),
        ("0.1ms", 100),
    ],
)
def test_a_duration_is_read_as_whole_microseconds(text, value_us):
    assert DURATION.validate_python(text) == value_us


@pytest.mark.parametrize(
    ("text", "value_bytes"),
    [("8GiB", 8 << 30), ("200MB", 200_000_000), ("64 KiB", 65_536), ("12B", 12), ("1.5kB", 1_500)],
)
def test_a_size_is_read_as_whole_bytes_decimal_or_binary(text, value_bytes):
    assert SIZE.validate_python(text) == value_bytes


def test_an_extent_is_width_then_height():
    assert EXTENT.validate_python("192x160") == (192, 160)


@pytest.mark.parametrize(("value", "fraction"), [("0.5%", 0.005), (0.25, 0.25), ("100%", 1.0), (0, 0.0)])
def test_a_fraction_is_a_number_or_a_percentage(value, fraction):
    assert FRACTION.validate_python(value) == pytest.approx(fraction)


@pytest.mark.parametrize(
    ("adapter", "value", "advice"),
    [
        (DURATION, 100, "write 100ms"),
        (SIZE, 64, "write 64MiB"),
        (EXTENT, 320, "write 320x320"),
        (EXTENT, [192, 160], "write 192x160"),
        (FRACTION, 25, "write 25% or 0.25"),
    ],
)
def test_a_bare_number_is_refused_with_what_to_write(adapter, value, advice):
    with pytest.raises(ValidationError, match=advice):
        adapter.validate_python(value)


@pytest.mark.parametrize(
    ("adapter", "value"),
    [
        (DURATION, "-1s"),
        (DURATION, "1 hour"),
        (DURATION, True),
        (SIZE, "8gib"),
        (EXTENT, "0x160"),
        (EXTENT, "99999x1"),
        (EXTENT, ("a", "b")),
        (FRACTION, "101%"),
        (FRACTION, -0.1),
        (FRACTION, float("nan")),
    ],
)
def test_what_is_no_such_value_is_refused(adapter, value):
    with pytest.raises(ValidationError):
        adapter.validate_python(value)


@given(st.integers(0, units.LONGEST_US))
def test_any_duration_dumps_as_text_that_reads_back_the_same(value_us):
    text = DURATION.dump_python(units.Microseconds(value_us))
    assert isinstance(text, str)
    assert DURATION.validate_python(text) == value_us


@given(st.integers(0, 10**15))
def test_any_size_dumps_as_text_that_reads_back_the_same(value_bytes):
    assert SIZE.validate_python(SIZE.dump_python(units.ByteCount(value_bytes))) == value_bytes


@given(st.tuples(st.integers(1, 65_535), st.integers(1, 65_535)))
def test_any_extent_dumps_as_text_that_reads_back_the_same(value_px):
    assert EXTENT.validate_python(EXTENT.dump_python(value_px)) == value_px

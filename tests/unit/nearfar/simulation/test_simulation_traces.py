"""Every way to say how a link behaves is read, and everything else is refused with words."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearfar.simulation.link.capacity import NEVER_US, PACKET_BYTES, Opportunities, Rates
from nearfar.simulation.link.traces import read_trace
from nearfar.simulation.steps import Steps
from pipelines.errors import ConfigError

MS = 1000


def written(folder: Path, text: str, name: str = "link.trace") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_mahimahi_trace_carries_a_packet_at_each_stamp_and_starts_again_at_the_last():
    capacity = Opportunities([10 * MS, 10 * MS, 30 * MS])
    assert capacity.offered(9_999) == 0
    assert capacity.offered(10 * MS) == 2 * PACKET_BYTES
    assert capacity.offered(30 * MS) == 3 * PACKET_BYTES
    assert capacity.reached_us(1) == 10 * MS
    assert capacity.reached_us(3 * PACKET_BYTES) == 30 * MS
    assert capacity.reached_us(3 * PACKET_BYTES + 1) == 40 * MS


def test_a_rate_that_changes_carries_what_the_rates_say():
    capacity = Rates([0, 100 * MS], [1.0, 0.0], period_us=200 * MS)
    assert capacity.offered(50 * MS) == 50_000
    assert capacity.offered(150 * MS) == 100_000
    assert capacity.reached_us(50_000) == 50 * MS
    assert capacity.reached_us(100_001) == 200 * MS + 1


def test_a_link_that_ends_never_carries_more():
    assert Rates([0, 10 * MS], [1.0, 0.0]).reached_us(10_001) == NEVER_US


@given(
    rates=st.lists(st.floats(0, 50), min_size=1, max_size=6).filter(lambda r: max(r) > 1e-6),
    totals=st.lists(st.integers(1, 3_000_000), min_size=1, max_size=5),
    loops=st.booleans(),
)
def test_the_inverse_of_what_was_offered_is_the_first_time_it_was(rates, totals, loops):
    times = [i * 20 * MS for i in range(len(rates))]
    capacity = Rates(times, rates, period_us=len(rates) * 20 * MS if loops else None)
    for total in totals:
        at_us = capacity.reached_us(total)
        if at_us < NEVER_US:
            assert capacity.offered(at_us) >= total - 0.01
            assert capacity.offered(at_us - 2) <= total + 0.01
        else:
            assert capacity.offered(10_000 * MS) < total


@given(
    stamps=st.lists(st.integers(0, 200), min_size=1, max_size=12).map(sorted).filter(lambda s: s[-1] > 0),
    total=st.integers(1, 200_000),
)
def test_the_inverse_of_opportunities_is_the_first_time_too(stamps, total):
    capacity = Opportunities([stamp * MS for stamp in stamps])
    at_us = capacity.reached_us(total)
    assert capacity.offered(at_us) >= total
    assert at_us == 0 or capacity.offered(at_us - 1) < total


def test_steps_hold_between_their_times_and_repeat():
    steps = Steps([0, 10, 30], [1.0, 2.0, 3.0], period_us=40)
    assert [steps.at(t) for t in (0, 9, 10, 29, 30, 39, 40, 50, 75)] == [1, 1, 2, 2, 3, 3, 1, 2, 3]


def test_whole_numbers_that_never_fall_are_mahimahi_stamps(tmp_path):
    trace = read_trace(written(tmp_path, "1\n1\n5\n10\n"), rtt_us=40 * MS)
    assert trace.described.startswith("mahimahi")
    assert trace.up.capacity.offered(10 * MS) == 4 * PACKET_BYTES
    assert trace.rtt_us(0) == 40 * MS


def test_other_numbers_are_the_rate_of_each_second(tmp_path):
    trace = read_trace(written(tmp_path, "8.0\n0.8\n"))
    assert trace.up.capacity.offered(2_000_000) == pytest.approx(1_100_000)
    assert trace.up.capacity.offered(4_000_000) == pytest.approx(2_200_000)


def test_what_the_content_leaves_open_can_be_said(tmp_path):
    path = written(tmp_path, "1\n2\n3\n")
    assert read_trace(path, fmt="mbit").up.capacity.offered(3_000_000) == pytest.approx(750_000)
    assert read_trace(path).up.capacity.offered(3 * MS) == 3 * PACKET_BYTES


def test_csv_says_round_trip_rate_and_loss_over_time(tmp_path):
    text = "time_s,rtt_ms,rate_mbit,loss\n0,20,8,0\n1,200,0.8,0.01\n2,20,8,0\n"
    trace = read_trace(written(tmp_path, text))
    assert [trace.rtt_us(t * 1_000_000) for t in (0, 1, 2, 3)] == [20 * MS, 200 * MS, 20 * MS, 20 * MS]
    assert trace.up.loss.at(1_500_000) == 0.01
    assert trace.up.capacity.offered(2_000_000) == pytest.approx(1_100_000)


def test_a_netlab_schedule_moves_delay_rate_and_outage(tmp_path):
    text = """[{"t": 0, "both": {"delay_ms": 10, "rate_mbit": 8}}, {"t": 5, "up": {"outage": "drop"}},
              {"t": 6, "up": {"outage": false}, "down": {"delay_ms": 40}}]"""
    trace = read_trace(written(tmp_path, text))
    assert trace.rtt_us(0) == 20 * MS
    assert trace.rtt_us(7_000_000) == 50 * MS
    assert [trace.up.outage.at(t * 1_000_000) for t in (4, 5, 6)] == [0, 1, 0]


def test_a_schedule_that_repeats_does_so_for_ever(tmp_path):
    text = (
        '{"repeat_s": 4, "steps": [{"t": 0, "both": {"delay_ms": 10}}, {"t": 2, "both": {"delay_ms": 80}}]}'
    )
    trace = read_trace(written(tmp_path, text))
    assert [trace.rtt_us(t * 1_000_000) // MS for t in (1, 3, 5, 401, 403)] == [20, 160, 20, 20, 160]


def test_a_held_link_carries_nothing_and_loses_nothing(tmp_path):
    text = '[{"t": 0, "up": {"rate_mbit": 8}}, {"t": 1, "up": {"outage": "hold"}}, {"t": 2, "up": {"outage": false}}]'
    trace = read_trace(written(tmp_path, text))
    assert trace.up.capacity.reached_us(1_000_001) > 2_000_000
    assert trace.up.outage.at(1_500_000) == 0


def test_loss_and_jitter_can_be_laid_over_any_trace(tmp_path):
    trace = read_trace(written(tmp_path, "8.5\n8\n")).with_loss(0.02, burst_packets=4).with_jitter(5 * MS)
    for way in (trace.up, trace.down):
        assert way.loss.at(0) == 0.02
        assert way.burst_packets == 4
        assert way.jitter_us.at(0) == 5 * MS
    assert trace.up.capacity.offered(1_000_000) == pytest.approx(1_062_500)


def test_a_file_of_its_own_rules_the_way_back(tmp_path):
    back = written(tmp_path, "0.5\n0.5\n", "back")
    trace = read_trace(written(tmp_path, "8.5\n8\n"), down=back)
    assert trace.down.capacity.offered(1_000_000) == pytest.approx(62_500)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("hello\n", "`hello` is not one number"),
        ("1\n2\n-3\n", "is not one number"),
        ("1 2\n", "is not one number"),
        ("0\n0\n", "carries nothing"),
        ("nan\n", "is not one number"),
        ("time_s,speed\n0,1\n", "it needs time_s or time_ms"),
        ("time_s,rate_mbit\n0,1\n", "at least two rows"),
        ("time_s,rate_mbit\n0,1\n1\n", "is not 2 numbers"),
        ("time_s,rate_mbit\n1,1\n1,1\n", "times that rise"),
        ("time_s,rate_mbit\n0,0\n1,0\n", "carries nothing"),
        ("[", "is not JSON"),
        ('{"a": 1}', "no schedule"),
        ('[{"t": 0, "sideways": {}}]', "a step has `sideways`"),
        ('[{"t": 0, "both": {"colour": 1}}]', "sets `colour`, which is not simulated"),
    ],
)
def test_what_is_no_trace_is_refused_with_words(tmp_path, text, words):
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as refused:
        read_trace(path)
    assert words in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_trace_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match="no such trace"):
        read_trace(tmp_path / "nowhere")

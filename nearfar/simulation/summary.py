"""The figures of a run, from its outcome alone.

on time = near or far, status ok, released by the deadline, of all captured. F1 counts a late or missing answer as
nothing seen. Staleness = release − capture of what was answered. A bad span is one of at least a second in which no
frame could have come back in time even alone on the link and at the lowest rung; time to fall back runs from its
start to the last frame still sent for an answer, time to far again from its end to the next far answer on time.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from nearfar.simulation.accuracies import Scores
from nearfar.simulation.far_side import HEAD_BYTES, RESULT_BYTES
from nearfar.simulation.outcome import FrameEnd, Outcome
from nearfar.simulation.scenario import Scenario, World
from nearfar.simulation.transitions import far_again
from pipelines.result import AnsweredBy
from pipelines.windows import quantile

BAD_SPAN_US = 1_000_000
BINS = 10


@dataclass(frozen=True, slots=True)
class Bin:
    """Sent frames whose p was in one tenth: how often they were on time."""

    p_from: float
    frames: int
    p_mean: float
    on_time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Shares in 0..1; `*_ms` are milliseconds; None = it never happened."""

    policy: str
    trace: str
    seed: int
    captured: int
    on_time: float
    f1: float
    near: float
    far: float
    tracked: float
    missed: float
    shed: float
    late_far: int
    rejected: int
    fresh_connections: int
    kb_per_frame: float
    carried_kb_per_frame: float
    near_ms_per_frame: float
    encode_ms_per_frame: float
    staleness_p50_ms: float
    staleness_p95_ms: float
    bad_spans: int
    fall_back_ms: float | None
    far_again_ms: float | None
    p_error: float | None
    calibration: tuple[Bin, ...]

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def summarise(outcome: Outcome, scenario: Scenario) -> Summary:
    ends = list(outcome.ends.values())
    captured = len(ends)
    share = {by: sum(end.by is by for end in ends) / captured for by in AnsweredBy}
    ages_ms = sorted((end.released_us - end.captured_us) / 1000 for end in ends if end.by is not None)
    spans = bad_spans(scenario)
    fall_back, again = _transitions(outcome, spans)
    bins, error = calibration(outcome)
    return Summary(
        policy=outcome.policy,
        trace=scenario.links[0].name,
        seed=scenario.seed,
        captured=captured,
        on_time=sum(end.on_time for end in ends) / captured,
        f1=on_time_f1(ends, scenario),
        near=share[AnsweredBy.NEAR],
        far=share[AnsweredBy.FAR],
        tracked=share[AnsweredBy.TRACKED],
        missed=share[AnsweredBy.MISSED],
        shed=sum(end.by is None for end in ends) / captured,
        late_far=outcome.late_far,
        rejected=sum(outcome.rejected.values()),
        fresh_connections=outcome.fresh_connections,
        kb_per_frame=outcome.up_bytes / captured / 1000,
        carried_kb_per_frame=outcome.carried_bytes / captured / 1000,
        near_ms_per_frame=outcome.near_us / captured / 1000,
        encode_ms_per_frame=outcome.encode_us / captured / 1000,
        staleness_p50_ms=quantile(ages_ms, 0.5) if ages_ms else 0.0,
        staleness_p95_ms=quantile(ages_ms, 0.95) if ages_ms else 0.0,
        bad_spans=len(spans),
        fall_back_ms=_mean_ms(fall_back),
        far_again_ms=_mean_ms(again),
        p_error=error,
        calibration=bins,
    )


def on_time_f1(ends: Sequence[FrameEnd], scenario: Scenario) -> float:
    """F1 over all frames; a tracked answer is worth nothing here, for nothing was detected."""
    world = World(scenario)
    accuracies = scenario.accuracies
    hits = weight = 0.0
    for end in ends:
        scores: Scores = accuracies.missed
        if end.on_time and end.by is AnsweredBy.FAR:
            scores = accuracies.rungs[end.rung]
        elif end.on_time and end.by is AnsweredBy.NEAR:
            small = accuracies.small_near
            scores = small if end.small and small is not None else accuracies.near
        picture = world.picture(end.key)
        hits += scores.hits[picture]
        weight += scores.weight[picture]
    return hits / weight if weight else 1.0


def bad_spans(scenario: Scenario) -> list[tuple[int, int]]:
    """(start, end) of spans of at least a second in which the link could answer no frame in time, to the frame."""
    world = World(scenario)
    accuracies = scenario.accuracies
    lowest = min(range(len(accuracies.ladder)), key=lambda i: sum(accuracies.size_bytes[i]))
    spans: list[tuple[int, int]] = []
    begin_us: int | None = None
    stream = scenario.streams[0]
    for seq in range(1, scenario.frames + 1):
        key = (stream, seq)
        at_us = world.captured_us(key)
        start_us = at_us + world.encode_us(key, lowest)
        size_bytes = HEAD_BYTES + world.size_bytes(key, lowest)
        able = any(
            _back_us(trace_index, scenario, start_us, size_bytes, world.worker_us(key))
            <= at_us + scenario.deadline_us
            for trace_index in range(len(scenario.links))
        )
        if able and begin_us is not None:
            if at_us - begin_us >= BAD_SPAN_US:
                spans.append((begin_us, at_us))
            begin_us = None
        elif not able and begin_us is None:
            begin_us = at_us
    return spans


def calibration(outcome: Outcome) -> tuple[tuple[Bin, ...], float | None]:
    """The reliability table of p over frames sent, and its expected error: Σ share · |mean p − on time| (Naeini
    et al. 2015). Probes promise nothing and are left out."""
    live = [sent for sent in outcome.sent if not sent.probe]
    if not live:
        return (), None
    bins = []
    error = 0.0
    for i in range(BINS):
        inside = [sent for sent in live if min(BINS - 1, int(sent.p * BINS)) == i]
        if not inside:
            continue
        mean = sum(sent.p for sent in inside) / len(inside)
        came = sum(s.arrived_us is not None and s.arrived_us <= s.answer_by_us for s in inside) / len(inside)
        bins.append(Bin(i / BINS, len(inside), round(mean, 4), round(came, 4)))
        error += len(inside) / len(live) * abs(mean - came)
    return tuple(bins), error


def _back_us(link: int, scenario: Scenario, start_us: int, size_bytes: int, worker_us: int) -> int:
    """When a lone frame would be answered over an idle link."""
    up, down = scenario.links[link].up, scenario.links[link].down
    left_us = max(start_us, up.capacity.reached_us(up.capacity.offered(start_us) + size_bytes))
    done_us = left_us + int(up.delay_us.at(left_us)) + worker_us
    back_us = max(done_us, down.capacity.reached_us(down.capacity.offered(done_us) + RESULT_BYTES))
    lost = up.outage.at(left_us) > 0 or down.outage.at(back_us) > 0
    return 1 << 62 if lost else back_us + int(down.delay_us.at(back_us))


def _transitions(outcome: Outcome, spans: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """µs until the last frame sent in each bad span, and from its end to the next far answer."""
    far_us = sorted(e.released_us for e in outcome.ends.values() if e.by is AnsweredBy.FAR and e.on_time)
    live_us = [sent.at_us for sent in outcome.sent if not sent.probe]
    fall_back = []
    for start_us, end_us in spans:
        inside = [at_us for at_us in live_us if start_us <= at_us < end_us]
        fall_back.append(max(inside) - start_us if inside else 0)
    return fall_back, [again_us for again_us in far_again(far_us, spans) if again_us is not None]


def _mean_ms(values_us: Sequence[int]) -> float | None:
    return sum(values_us) / len(values_us) / 1000 if values_us else None

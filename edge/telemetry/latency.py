"""How late the answers are, counted as they leave: cumulative counts that only rise, at a microsecond an answer."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

from pipelines.result import Answer, AnsweredBy

BOUNDS_US = (
    *(5_000, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 75_000, 90_000, 100_000, 110_000, 125_000),
    *(150_000, 200_000, 300_000, 500_000, 1_000_000, 2_500_000),
)


@dataclass(frozen=True, slots=True)
class Histogram:
    """`counts[i]` values were at most `BOUNDS_US[i]` and above the bound before; the last count is of those beyond."""

    counts: tuple[int, ...]
    sum_us: int


@dataclass(slots=True)
class _Tally:
    counts: list[int]
    sum_us: int = 0


class LatencyTally:
    """An `AnswerSink`. Offered to by the dispatcher alone; `histograms` and `on_time` may be read by any thread.

    Frames that are pulled (`paced` False) have no latency worth the name and are left out.
    """

    def __init__(self, streams: tuple[str, ...]) -> None:
        self._by: dict[AnsweredBy, _Tally] = {by: _Tally([0] * (len(BOUNDS_US) + 1)) for by in AnsweredBy}
        self._answers = {(stream, by): 0 for stream in streams for by in AnsweredBy}
        self._on_time = dict.fromkeys(streams, 0)

    def offer(self, answer: Answer) -> bool:
        stream = answer.id.stream
        self._answers[(stream, answer.answered_by)] += 1
        if answer.paced:
            tally = self._by[answer.answered_by]
            tally.counts[bisect_left(BOUNDS_US, answer.latency_us)] += 1
            tally.sum_us += answer.latency_us
            self._on_time[stream] += answer.on_time
        return True

    @property
    def histograms(self) -> Mapping[AnsweredBy, Histogram]:
        """Latency from capture to release, by who answered."""
        return {by: Histogram(tuple(tally.counts), tally.sum_us) for by, tally in self._by.items()}

    @property
    def answers(self) -> Mapping[tuple[str, AnsweredBy], int]:
        """Answers by stream and who gave them."""
        return dict(self._answers)

    @property
    def on_time(self) -> Mapping[str, int]:
        """Answers that were out in time, by stream."""
        return dict(self._on_time)

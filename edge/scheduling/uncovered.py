"""Frames that went far with no near time behind them: near is theirs as soon as it is free, if that is in time.

When near has no time for a frame it may have some a moment later: a run ends early, or far answers what near was kept
for. Near alone would take the frame then, so a frame that was sent far must not be worse off.
"""

from collections.abc import Iterator

from edge.scheduling.job import NONE, Job
from edge.scheduling.key import Key
from edge.scheduling.near.claims import importance


class Uncovered:
    """`add` what is under way; a frame that was answered or got its near time meanwhile leaves by itself."""

    def __init__(self) -> None:
        self._jobs: dict[Key, Job] = {}

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        """Those that still want near time: the most important first, of equals the one that has the least time."""
        for key, job in sorted(self._jobs.items(), key=_claim):
            if job.given is None and job.near is NONE and job.far_open:
                yield job
            else:
                del self._jobs[key]

    def add(self, job: Job) -> None:
        self._jobs[job.key] = job

    def drop(self, key: Key) -> None:
        """The frame is gone."""
        self._jobs.pop(key, None)


def _claim(item: tuple[Key, Job]) -> tuple[int, int]:
    job = item[1]
    return -importance(job), job.answer_by_us

"""What became of every frame, as numbers that must add up.

Law: captured = near + far + tracked + missed + gated + shed(reason) + pending, per agent, at any moment.
Captures and ends before anybody was asked come from any thread, through the methods that say so; all else is the
dispatcher thread's. Others may read at any moment, a figure then a frame ahead of another; what adds up is read when
those threads have ended.
"""

import threading
from collections import Counter
from dataclasses import dataclass, field

from pipelines.result import Answer, AnsweredBy, ShedReason, Status
from pipelines.windows import quantile


@dataclass(slots=True)
class Counters:
    captured: int = 0
    answered: Counter[AnsweredBy] = field(default_factory=Counter)
    shed: Counter[ShedReason] = field(default_factory=Counter)
    gated: int = 0
    gated_why: Counter[str] = field(default_factory=Counter)
    on_time: int = 0
    unpaced: int = 0
    late_far: int = 0
    uncommitted: int = 0
    failed: int = 0
    offloaded: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    payload_bytes: int = 0
    cancelled_near: int = 0
    near_runs: int = 0
    near_smaller_runs: int = 0
    latencies_us: dict[AnsweredBy, list[int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def capture(self) -> None:
        """A frame got its seq; from any thread."""
        with self._lock:
            self.captured += 1

    def end_shed(self, reason: ShedReason, *, paced: bool) -> None:
        """A frame was given up; from any thread."""
        with self._lock:
            self.shed[reason] += 1
            self.unpaced += not paced

    def end_gated(self, why: str) -> None:
        """A gate did not let a frame pass; from any thread."""
        with self._lock:
            self.gated += 1
            self.gated_why[why] += 1

    def answer(self, answer: Answer) -> None:
        self.answered[answer.answered_by] += 1
        self.on_time += answer.on_time and answer.paced
        with self._lock:
            self.unpaced += not answer.paced
        self.failed += answer.status is Status.FAILED
        latencies = self.latencies_us.setdefault(answer.answered_by, [])
        latencies.append(answer.latency_us)
        if len(latencies) > 200_000:
            del latencies[::2]  # a long run keeps a sample: every second of the old, all of the new

    @property
    def pending(self) -> int:
        """Captured and not yet answered, gated or shed."""
        return self.captured - sum(self.answered.values()) - self.gated - sum(self.shed.values())

    def summary(self, *, pending: int) -> dict[str, object]:
        """The law with `pending` counted independently, and what follows from it."""
        answered = {by.value: self.answered[by] for by in AnsweredBy}
        shed = {reason.value: self.shed[reason] for reason in ShedReason if self.shed[reason]}
        paced = self.captured - self.gated - self.unpaced
        given = sum(self.answered.values())
        return {
            "frames": {
                "captured": self.captured,
                **answered,
                "gated": self.gated,
                "shed": shed,
                "pending": pending,
                "adds_up": self.pending == pending,
            },
            "on_time": {
                "frames": self.on_time,
                "of": paced,
                "rate": round(self.on_time / paced, 6) if paced > 0 else None,
            },
            "shares": {by: round(n / given, 4) if given else None for by, n in answered.items()},
            "latency_ms": {
                by.value: {
                    name: round(quantile(sorted(values), q) / 1000, 2)
                    for name, q in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
                }
                for by, values in self.latencies_us.items()
                if values
            },
            "gated": dict(self.gated_why),
            "late_far": self.late_far,
            "uncommitted": self.uncommitted,
            "failed": self.failed,
            "far": {
                "offloaded": self.offloaded,
                "rejected": dict(self.rejected),
                "payload_bytes": self.payload_bytes,
            },
            "near": {
                "runs": self.near_runs,
                "smaller": self.near_smaller_runs,
                "cancelled": self.cancelled_near,
            },
        }

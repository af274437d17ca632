"""Near is one serial resource: slots reserved on its timeline, one for every frame that may need it.

Invariants, for any sequence of calls: slots never overlap each other or the run that is on; a slot ends by
its frame's latest end; an overlap is resolved by moving slots earlier, never later; a reservation that
cannot be had changes nothing.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from edge.scheduling.key import Key


class Slot(NamedTuple):
    """Near time `start_us..end_us` kept for `key`, whose run would rather start at `early_us`, if near is idle then."""

    end_us: int
    start_us: int
    key: Key
    early_us: int | None = None


class NearTimeline:
    def __init__(self) -> None:
        self._slots: list[Slot] = []
        self._busy_until_us = 0

    def __repr__(self) -> str:
        slots = ", ".join(f"{s.key[0]}/{s.key[1]} {s.start_us}..{s.end_us}" for s in self._slots)
        return f"<NearTimeline busy until {self._busy_until_us} [{slots}]>"

    def __iter__(self) -> Iterator[Slot]:
        """In order of time, for a look that changes nothing."""
        return iter(self._slots)

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """In order of time."""
        return tuple(self._slots)

    def get(self, key: Key) -> Slot | None:
        for slot in self._slots:
            if slot.key == key:
                return slot
        return None

    def first(self) -> Slot | None:
        return self._slots[0] if self._slots else None

    def reserve(
        self, key: Key, *, guard_us: int, latest_end_us: int, now_us: int, early_us: int | None = None
    ) -> Slot | None:
        """A slot of `guard_us` for `key` that ends as late as possible, or None when nothing fits.

        Earliest deadline first: slots before it are moved earlier until they fit, and the whole plan must
        still start after `now_us` and after the run that is on.
        """
        plan = [*self._slots]
        new = Slot(latest_end_us, latest_end_us - guard_us, key, early_us)
        at = bisect_right(plan, new)
        if at < len(plan) and plan[at].start_us < latest_end_us:
            new = Slot(plan[at].start_us, plan[at].start_us - guard_us, key, early_us)
        plan.insert(at, new)
        # Those after it stay; of those before it, from the last one on, as many as it pushes.
        bound_us = new.start_us
        for i in range(at - 1, -1, -1):
            slot = plan[i]
            if slot.end_us <= bound_us:
                break
            length_us = slot.end_us - slot.start_us
            plan[i] = slot = Slot(bound_us, bound_us - length_us, slot.key, slot.early_us)
            bound_us = slot.start_us
        if plan[0].start_us < now_us or plan[0].start_us < self._busy_until_us:
            return None
        self._slots = plan
        return new

    def release(self, key: Key) -> None:
        """The frame no longer needs its slot. Others stay where they are: never later."""
        self._slots = [s for s in self._slots if s.key != key]

    def restore(self, slots: tuple[Slot, ...]) -> None:
        """Back to a plan that was valid at this same moment."""
        self._slots = [*slots]

    def begin(self, key: Key, *, guard_us: int, now_us: int) -> None:
        """The run of `key` starts now; it leaves the plan and occupies near for `guard_us`."""
        self.release(key)
        self._busy_until_us = now_us + guard_us

    def expect_end(self, until_us: int) -> int:
        """The run that is on occupies near until then; returns what was expected before."""
        busy_until_us, self._busy_until_us = self._busy_until_us, until_us
        return busy_until_us

    def finish(self, now_us: int) -> None:
        """The run that was on has ended."""
        self._busy_until_us = now_us

    def fits_before_others(self, key: Key, *, guard_us: int, now_us: int) -> bool:
        """Whether a run of `key` from now on would end before any other frame's slot starts."""
        for slot in self._slots:
            if slot.key != key:
                return now_us + guard_us <= slot.start_us
        return True

"""A bulk lane beside live frames on one first-in-first-out link, in virtual time: what `Pacing` makes of it.

live frames, chunks ─→ FIFO at `bytes_per_s` ─→ half a round trip ─→ worker (commits in groups) ─→ half a round trip
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from edge.outbox.sending.pacing import Pacing

LOOK_EVERY_US = 50_000
COMMIT_EVERY_US = 20_000
COMMIT_US = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """`share` of what live frames leave of the link; `waited_us`: what each live frame waited
    in the link, sorted; `most_out`: chunks under way at a time."""

    share: float
    waited_us: list[int]
    largest_bytes: int
    most_out: int
    most_out_bytes: int

    def waited(self, q: float) -> int:
        return self.waited_us[int(q * (len(self.waited_us) - 1))]


@dataclass
class Road:
    """`live_bytes_per_s` is what the live lane believes of the link, `jitter_us` what its round trips vary by without
    any queue, `late_us` how late whoever sends is woken at most; about once a second the worker answers nothing for
    up to `stumble_us`."""

    bytes_per_s: float = 1e6
    rtt_us: int = 30_000
    fps: int = 20
    frame_bytes: int = 4_100
    live_bytes_per_s: float = 5e5
    jitter_us: int = 3_000
    late_us: int = 3_000
    grouped: bool = True
    over_budget: bool = False
    most_out: int = 16
    stumble_us: int = 0
    pacing: Pacing = field(default_factory=Pacing)

    def run(self, seconds: float, *, warm_s: float = 3.0, seed: int = 1) -> Found:
        dice = random.Random(seed)
        now_us, number, order = 1_000_000, 0, 0
        begun_us, end_us = now_us + int(warm_s * 1e6), now_us + int((warm_s + seconds) * 1e6)
        todo: list[tuple[int, int, Callable[[], None]]] = []
        free_us = now_us  # of the link
        waited: list[int] = []
        sent_bytes = live_bytes = in_flight = most_out = most_out_bytes = largest = alarms = (
            stumbles_until_us
        ) = 0
        last_rtt_us = self.rtt_us
        out_bytes: dict[int, int] = {}
        group: list[int] = []
        committing = False

        def at(when_us: int, what: Callable[[], None]) -> None:
            nonlocal order
            order += 1
            heapq.heappush(todo, (when_us, order, what))

        def cross(size_bytes: int) -> tuple[int, int]:
            """When it has crossed, and what it waited."""
            nonlocal free_us
            waits_us = max(0, free_us - now_us)
            free_us = max(now_us, free_us) + int(size_bytes / self.bytes_per_s * 1e6)
            return free_us + self.rtt_us // 2, waits_us

        def frame() -> None:
            nonlocal in_flight, live_bytes
            there_us, waits_us = cross(self.frame_bytes)
            in_flight += 1
            self.pacing.live_sent(now_us)
            if now_us >= begun_us:
                waited.append(waits_us)
                live_bytes += self.frame_bytes
            at(there_us, lambda: seen(waits_us))
            at(now_us + 1_000_000 // self.fps + dice.randint(-2000, 2000), frame)

        def seen(waits_us: int) -> None:
            stumbled_us = max(0, stumbles_until_us - now_us)
            at(now_us + stumbled_us + 10_000 + self.rtt_us // 2, lambda: answered(waits_us + stumbled_us))

        def answered(waits_us: int) -> None:
            nonlocal in_flight, last_rtt_us
            in_flight -= 1
            last_rtt_us = self.rtt_us + waits_us + dice.randint(0, self.jitter_us)

        def after_stumbles() -> int:
            return max(now_us, stumbles_until_us)

        def stumble() -> None:
            nonlocal stumbles_until_us
            stumbles_until_us = now_us + dice.randint(self.stumble_us // 3, self.stumble_us)
            at(now_us + dice.randint(300_000, 1_700_000), stumble)

        def look() -> None:
            self.pacing.observe(
                in_flight_bytes=in_flight * self.frame_bytes,
                over_budget=self.over_budget,
                bytes_per_s=self.live_bytes_per_s * dice.uniform(0.6, 1.4),
                queueing_us=last_rtt_us - self.rtt_us,
                now_us=now_us,
                rtt_us=self.rtt_us,
            )
            at(now_us + LOOK_EVERY_US, look)

        def arrived(batch: int) -> None:
            nonlocal committing
            if not self.grouped:
                at(after_stumbles() + 1000 + self.rtt_us // 2, lambda: acked([batch]))
                return
            group.append(batch)
            if not committing:
                committing = True
                at(now_us + COMMIT_EVERY_US, commit)

        def commit() -> None:
            nonlocal committing
            committing = False
            done, group[:] = list(group), []
            at(after_stumbles() + COMMIT_US + self.rtt_us // 2, lambda: acked(done))

        def acked(batches: list[int]) -> None:
            for batch in batches:
                del out_bytes[batch]
                self.pacing.acked(batch, now_us)
            wake()

        def turn() -> None:
            nonlocal number, most_out, most_out_bytes, sent_bytes, largest
            while len(out_bytes) < self.most_out and (size_bytes := self.pacing.allowance_bytes(now_us)):
                number += 1
                most_out = max(most_out, len(out_bytes) + 1)
                largest = max(largest, size_bytes)
                sent_bytes += size_bytes if now_us >= begun_us else 0
                self.pacing.sent(size_bytes, now_us, batch=number)
                out_bytes[number] = size_bytes
                most_out_bytes = max(most_out_bytes, sum(out_bytes.values()))
                there_us, _ = cross(size_bytes)
                at(there_us, lambda batch=number: arrived(batch))  # type: ignore[misc]

        def wake(alarm: int | None = None) -> None:
            nonlocal alarms
            if alarm is not None and alarm != alarms:
                return  # another one was set since
            turn()
            alarms = number_of_alarm = alarms + 1
            due_us = max(self.pacing.due_us(now_us), now_us + 1000) + dice.randint(0, self.late_us)
            at(due_us, lambda: wake(number_of_alarm))

        self.pacing.reachable(connected=True, now_us=now_us)
        look()
        wake()
        if self.stumble_us:
            stumble()
        if self.fps:
            frame()
        while todo and todo[0][0] < end_us:
            now_us, _, what = heapq.heappop(todo)
            what()
        spare = self.bytes_per_s * seconds - live_bytes
        return Found(
            share=sent_bytes / spare,
            waited_us=sorted(waited),
            largest_bytes=largest,
            most_out=most_out,
            most_out_bytes=most_out_bytes,
        )

"""The gateway in virtual time: carries out what the scheduler decides, as the dispatcher does.

    camera → slot → SCHEDULER ─┬─ encoder → link ══► worker
                               └─ near          answers → outbox commit → released

Latest wins in the slot; near and the encoder do one thing at a time; a frame ends once, released or shed.
"""

from collections.abc import Mapping, Sequence

from edge.scheduling import actions
from edge.scheduling.key import Key
from edge.scheduling.scheduler import Scheduler
from nearfar.simulation.clock import Clock
from nearfar.simulation.far_side import FarSide
from nearfar.simulation.outcome import FrameEnd, Outcome
from nearfar.simulation.scenario import World
from pipelines.result import AnsweredBy, ShedReason, Status


class Gateway:
    """`far` by link name; `start` it, then run the clock."""

    def __init__(
        self,
        clock: Clock,
        world: World,
        scheduler: Scheduler,
        far: Mapping[str, FarSide],
        outcome: Outcome,
    ) -> None:
        self._clock = clock
        self._world = world
        self._scheduler = scheduler
        self._far = far
        self._outcome = outcome
        self._deadline_us = world.scenario.deadline_us
        self._waiting: dict[str, Key] = {}
        self._given: dict[Key, actions.Give] = {}
        self._rungs: dict[Key, int] = {}
        self._sizes: dict[Key, int] = {}
        self._encoder_free_us = 0
        self._near: tuple[Key, int, bool] | None = None  # the run that is on: frame, start, cancelled
        self._small: set[Key] = set()

    def start(self) -> None:
        for stream in self._world.scenario.streams:
            self._clock.at(self._world.captured_us((stream, 1)), lambda s=stream: self._capture((s, 1)))  # type: ignore[misc]

    def run_until(self, end_us: int) -> None:
        """Events and the scheduler's timers in the order of time."""
        clock, scheduler = self._clock, self._scheduler
        while True:
            due_us = self._due_us()
            event_us = clock.next_us()
            next_us = min((t for t in (due_us, event_us) if t is not None), default=end_us + 1)
            if next_us > end_us:
                clock.advance(max(clock.now_us, end_us))
                return
            clock.advance(max(clock.now_us, next_us))
            clock.run_due()
            if due_us is not None and due_us <= clock.now_us:
                self.do(scheduler.tick(clock.now_us))
            if self._waiting:
                for stream in scheduler.by_claim(list(self._waiting), clock.now_us):
                    self._take(stream)

    def do(self, decided: Sequence[actions.Action]) -> None:
        for action in decided:
            self._act(action)

    # -- frames -------------------------------------------------------------------------------------------

    def _due_us(self) -> int | None:
        due_us = self._scheduler.next_us()
        if not self._waiting:
            return due_us
        waits_until_us, captured_us = self._scheduler.waits_until_us, self._world.captured_us
        ups = [waits_until_us(k, captured_us(k) + self._deadline_us) for k in self._waiting.values()]
        later = [up_us for up_us in ups if up_us > self._clock.now_us]
        return min([*later, *([] if due_us is None else [due_us])], default=None)

    def _capture(self, key: Key) -> None:
        """A frame is there: it displaces what waits in the slot of its stream."""
        stream, seq = key
        if seq < self._world.scenario.frames:
            following = (stream, seq + 1)
            self._clock.at(self._world.captured_us(following), lambda: self._capture(following))
        if stream in self._waiting:
            self._shed(self._waiting.pop(stream), ShedReason.SLOT_OVERWRITTEN)
        self._waiting[stream] = key
        self._outcome.ends[key] = FrameEnd(key, self._clock.now_us, None)
        self._take(stream)

    def _take(self, stream: str) -> None:
        key = self._waiting.get(stream)
        if key is None:
            return
        captured_us = self._outcome.ends[key].captured_us
        offered = self._scheduler.offer(
            key,
            captured_us=captured_us,
            deadline_us=captured_us + self._deadline_us,
            now_us=self._clock.now_us,
        )
        if offered is not None:
            del self._waiting[stream]
            self.do(offered)

    def _shed(self, key: Key, reason: ShedReason) -> None:
        self._outcome.ends[key].shed = reason.value

    # -- actions ------------------------------------------------------------------------------------------

    def _act(self, action: actions.Action) -> None:
        match action:
            case actions.Encode(key, rung):
                self._encode(key, rung)
            case actions.SendFrame(key, link):
                self._far[link].send(
                    action,
                    size_bytes=self._sizes[key],
                    answer_by_us=self._deadline_of(key) - self._scheduler.wake_up.margin_us,
                )
            case actions.CancelFar(key, link):
                self._far[link].cancel(key)
            case actions.SendPing(link, nonce):
                self._far[link].ping(nonce)
            case actions.OpenFresh(link):
                self._outcome.fresh_connections += 1
                self._far[link].open_fresh()
            case actions.StartNear(key, _, small):
                self._start_near(key, small=small)
            case actions.CancelNear(key):
                self._cancel_near(key)
            case actions.Give(key, hold=hold):
                self._given[key] = action
                if hold:
                    commit_us = self._clock.now_us + self._world.scenario.commit_us
                    self._clock.at(commit_us, lambda: self._committed(key))
                else:
                    self._release(key)
            case actions.Release(key):
                self._release(key)
            case actions.Shed(key, reason):
                self._shed(key, reason)
            case actions.LateFar():
                self._outcome.late_far += 1

    def _deadline_of(self, key: Key) -> int:
        return self._outcome.ends[key].captured_us + self._deadline_us

    def _encode(self, key: Key, rung: int) -> None:
        """The encoder's thread takes one picture after the other."""
        encode_us = self._world.encode_us(key, rung)
        self._rungs[key] = rung
        self._sizes[key] = self._world.size_bytes(key, rung)
        self._outcome.encode_us += encode_us
        self._encoder_free_us = max(self._clock.now_us, self._encoder_free_us) + encode_us
        self._clock.at(self._encoder_free_us, lambda: self._encoded(key, encode_us))

    def _encoded(self, key: Key, encode_us: int) -> None:
        now_us = self._clock.now_us
        self.do(self._scheduler.encoded(key, size_bytes=self._sizes[key], encode_us=encode_us, now_us=now_us))

    def _start_near(self, key: Key, *, small: bool) -> None:
        now_us = self._clock.now_us
        if small:
            self._small.add(key)
        else:
            self._small.discard(key)
        run_us = self._world.small_near_us(key) if small else self._world.near_us(key)
        self._near = started = (key, now_us, False)
        self._clock.at(now_us + run_us, lambda: self._near_over(started, run_us, Status.OK))

    def _cancel_near(self, key: Key) -> None:
        if self._near is None or self._near[0] != key or self._near[2]:
            return
        start_us = self._near[1]
        stopped = self._near = (key, start_us, True)
        stop_us = self._clock.now_us + self._world.scenario.cancel_us
        self._clock.at(stop_us, lambda: self._near_over(stopped, stop_us - start_us, None))

    def _near_over(self, run: tuple[Key, int, bool], run_us: int, status: Status | None) -> None:
        """Whichever of its end and its cancellation comes first; a frame may have a second run, at the smaller input."""
        if self._near is None or self._near[:2] != run[:2]:
            return
        key = run[0]
        self._near = None
        self._outcome.near_us += run_us
        self.do(
            self._scheduler.near_done(
                key,
                status=status,
                run_us=run_us,
                now_us=self._clock.now_us,
                confidence=self._world.confidence(key),
            )
        )

    def _committed(self, key: Key) -> None:
        self._scheduler.wake_up.commit_took(self._world.scenario.commit_us)
        self.do(self._scheduler.committed(key, self._clock.now_us))

    def _release(self, key: Key) -> None:
        give = self._given[key]
        end = self._outcome.ends[key]
        end.by = give.by
        end.reason = give.reason
        end.released_us = self._clock.now_us
        good = give.by in (AnsweredBy.NEAR, AnsweredBy.FAR) and give.status is Status.OK
        end.on_time = good and end.released_us <= self._deadline_of(key)
        if give.by is AnsweredBy.FAR:
            end.rung = self._rungs[key]
        end.small = give.by is AnsweredBy.NEAR and key in self._small

"""The dispatcher: one thread that owns the scheduler, its clock and its timers.

An actor: capture, near, tracker, encoder, links and outbox only report to its inbox. The intake takes frames from
their slots, the scheduler decides, the enactor carries out; nothing here blocks but the wait for the next event or
timer. Frames that nobody is asked about (gated, overwritten, stale) end on the thread that captured them: however fast
a camera is, the inbox holds one report of each stream at most.
"""

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence

from edge.archive.archivist import Archivist
from edge.far.ports import FarPorts
from edge.far.sight import LinkSight
from edge.flow.answer_desk import AnswerDesk
from edge.flow.enactor import Enactor
from edge.flow.encoder import Encoded
from edge.flow.intake import Intake
from edge.flow.pending import Pending
from edge.flow.stream_port import StreamPort
from edge.flow.track_runner import TrackRun
from edge.flow.tracking import Tracking
from edge.flow.unasked import Unasked
from edge.links.base import LinkEvent
from edge.near.runner import NearRun, NearRunner
from edge.outbox.port import Outbox
from edge.scheduling.key import Key
from edge.scheduling.scheduler import Scheduler
from edge.telemetry.counters import Counters
from pipelines.frame import Frame, FrameId
from pipelines.log_throttle import LogThrottle
from pipelines.result import ShedReason

log = logging.getLogger(__name__)

LONGEST_WAIT_US = 250_000


class Dispatcher(threading.Thread):
    """Public methods may be called from any thread; all but `run` only enqueue, or count. `far` makes the links' side
    over the frames that are open, None = there is no link."""

    def __init__(
        self,
        *,
        scheduler: Scheduler,
        deadline_us: int,
        streams: Sequence[StreamPort],
        near: NearRunner | None,
        far: Callable[[Mapping[Key, Pending]], FarPorts] | None,
        outbox: Outbox,
        desk: AnswerDesk,
        counters: Counters,
        clock_us: Callable[[], int],
        tracking: Tracking | None = None,
        archive: Archivist | None = None,
    ) -> None:
        super().__init__(name="dispatcher", daemon=True)
        self.scheduler = scheduler
        self.counters = counters
        self._ports: Mapping[str, StreamPort] = {p.name: p for p in streams}
        self._clock_us = clock_us
        self._trouble = LogThrottle(log, clock_us=clock_us)
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._pending: dict[Key, Pending] = {}
        self._unasked = Unasked(outbox=outbox, desk=desk, counters=counters)
        # Streams whose report lies in the inbox; taken out here before the slot is looked into.
        self._reported: set[str] = set()
        self._over = False
        self.idle = threading.Event()
        # For other threads: when this one last turned, 0 = not yet.
        self.turned_us = 0
        self.far = None if far is None else far(self._pending)
        self.tracking = tracking
        self._intake = Intake(
            scheduler=scheduler,
            deadline_us=deadline_us,
            ports=self._ports,
            pending=self._pending,
            unasked=self._unasked,
            clock_us=clock_us,
            tracking=tracking,
        )
        self._enactor = Enactor(
            scheduler=scheduler,
            near=near,
            far=self.far,
            outbox=outbox,
            desk=desk,
            counters=counters,
            unasked=self._unasked,
            pending=self._pending,
            clock_us=clock_us,
            tracking=tracking,
            archive=archive,
        )

    # -- reports from other threads -----------------------------------------------------------------------

    def offered(self, stream: str) -> None:
        """A frame lies in the slot of `stream`."""
        if stream not in self._reported:
            self._reported.add(stream)
            self._inbox.put(lambda: self._on_offered(stream))
        self.idle.clear()

    def captured(self, stream: str, seq: int) -> None:
        self._guarded(lambda: self._unasked.captured(stream, seq))

    def overwritten(self, frame: Frame) -> None:
        self._guarded(lambda: self._unasked.shed(frame, ShedReason.SLOT_OVERWRITTEN))

    def stale(self, frame: Frame) -> None:
        """The camera gave `frame` too late to be worth an answer."""
        self._guarded(lambda: self._unasked.shed(frame, ShedReason.STALE_SOURCE))

    def gated(self, frame: Frame, why: str) -> None:
        """The gate of its stream let `frame` not pass."""
        self._guarded(lambda: self._unasked.gated(frame, why))

    def near_done(self, run: NearRun) -> None:
        self._inbox.put(lambda: self._on_near(run))

    def tracked(self, run: TrackRun) -> None:
        self._inbox.put(lambda: self._enactor.tracked(run))

    def encoded(self, encoded: Encoded) -> None:
        self._inbox.put(lambda: self._on_encoded(encoded))

    def committed(self, frame_id: FrameId) -> None:
        self._inbox.put(lambda: self._on_committed((frame_id.stream, frame_id.seq)))

    def link_event(self, link: str, event: LinkEvent) -> None:
        """Something happened on the link of this name."""
        self._inbox.put(lambda: self._on_link(link, event))

    def drain(self) -> None:
        """Take nothing new: frames in slots are shed as `stopping`, accepted ones are still answered."""
        self._inbox.put(self._start_stopping)

    def stop(self, timeout_s: float = 1.0) -> None:
        """End the thread; whatever is still unanswered is shed as `stopping`, counted."""
        self._inbox.put(self._end)
        if self.ident is not None:
            self.join(timeout_s)

    # -- the loop -----------------------------------------------------------------------------------------

    def run(self) -> None:
        while not self._over:
            now_us = self._clock_us()
            due_us = self._due_us()
            wait_us = LONGEST_WAIT_US if due_us is None else min(LONGEST_WAIT_US, due_us - now_us)
            try:
                if wait_us > 0:
                    event = self._inbox.get(timeout=wait_us / 1e6)
                else:
                    event = self._inbox.get_nowait()
            except queue.Empty:
                if due_us is not None and wait_us < LONGEST_WAIT_US:
                    woke_us = self._clock_us()
                    self.scheduler.wake_up.woke_late(woke_us - max(due_us, now_us))
            else:
                self._guarded(event)
            if not self._over:
                self._guarded(self._tick)

    def _due_us(self) -> int | None:
        """When something has to be done even if nothing happens."""
        times = [self.scheduler.next_us(), *self._intake.waiting.values()]
        return min((t for t in times if t is not None), default=None)

    def _guarded(self, step: Callable[[], None]) -> None:
        """A bug in one event must not silence every camera: it is logged and the loop goes on."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - said with its traceback
            self._trouble.failed("dispatcher:", "one event failed", error=error)

    def _tick(self) -> None:
        now_us = self._clock_us()
        due_us = self.scheduler.next_us()
        if due_us is not None and due_us <= now_us:
            self._enactor.do(self.scheduler.tick(now_us))
        if self._intake.waiting:
            for stream in self.scheduler.by_claim(self._intake.waiting, now_us):
                self._take(stream)
        self.turned_us = now_us
        if self.far is not None:
            self.far.look(now_us)
        if self._pending or self._intake.waiting:
            self.idle.clear()
        elif self._inbox.empty():
            self.idle.set()

    # -- frames -------------------------------------------------------------------------------------------

    def _on_offered(self, stream: str) -> None:
        self._reported.discard(stream)
        self._take(stream)

    def _take(self, stream: str) -> None:
        self._enactor.do(self._intake.take(stream))

    # -- events -------------------------------------------------------------------------------------------

    def _on_near(self, run: NearRun) -> None:
        pending = self._pending.get(run.key)
        if pending is not None:
            pending.near = run
        if self.tracking is not None:
            self.tracking.near_said(run)
        self.counters.near_runs += 1
        self.counters.near_smaller_runs += run.small
        self.counters.cancelled_near += run.status is None
        self._enactor.do(
            self.scheduler.near_done(
                run.key,
                status=run.status,
                run_us=run.run_us,
                now_us=self._clock_us(),
                confidence=run.confidence,
            )
        )

    def _on_encoded(self, encoded: Encoded) -> None:
        now_us = self._clock_us()
        pending = self._pending.get(encoded.key)
        if pending is not None and pending.rung != encoded.rung:
            return  # it was ordered anew at another rung meanwhile; that one is on its way
        if encoded.data is None or encoded.encoding is None:
            self._enactor.do(self.scheduler.send_failed(encoded.key, encoded.failed, now_us))
            return
        if pending is not None:
            pending.payload, pending.encoding = encoded.data, encoded.encoding
            pending.encode_us = encoded.encode_us
        self._enactor.do(
            self.scheduler.encoded(
                encoded.key, size_bytes=len(encoded.data), encode_us=encoded.encode_us, now_us=now_us
            )
        )

    def _on_committed(self, key: Key) -> None:
        now_us = self._clock_us()
        pending = self._pending.get(key)
        if pending is not None and pending.given_us:
            self.scheduler.wake_up.commit_took(now_us - pending.given_us)
        self._enactor.do(self.scheduler.committed(key, now_us))

    def _on_link(self, link: str, event: LinkEvent) -> None:
        if self.far is not None:
            self._enactor.do(self.far.happened(link, event))

    # -- the end ------------------------------------------------------------------------------------------

    def _start_stopping(self) -> None:
        self._intake.close()
        for stream in self._ports:
            self._take(stream)

    def _end(self) -> None:
        self._start_stopping()
        for key, pending in list(self._pending.items()):
            if pending.give is not None:
                self._enactor.release(key, committed=False)
                continue
            del self._pending[key]
            self._enactor.do(self.scheduler.forget(key, self._clock_us()))
            self._unasked.shed(pending.frame, ShedReason.STOPPING)
        self._over = True
        if self.far is not None:  # the summary has all that counted until here
            self.far.look(self._clock_us(), at_once=True)

    @property
    def sights(self) -> Sequence[LinkSight]:
        """The links as they were seen last; none before the first look."""
        return () if self.far is None else self.far.sights

    @property
    def unheard(self) -> int:
        """Reports of other threads that wait for this one, at about this moment."""
        return self._inbox.qsize()

    @property
    def pending_frames(self) -> int:
        """Frames taken and not yet answered, counted from the table itself."""
        return len(self._pending)

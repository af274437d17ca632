"""One link with its worker behind it, as the gateway's link port sees it.

Head and body are messages of their own, so that the worker's arrival spread is what it is in production, and
answers come back on the connection the frame left on.
"""

from collections.abc import Callable, Sequence

from edge.scheduling.actions import Action, SendFrame
from edge.scheduling.key import Key
from edge.scheduling.scheduler import Scheduler
from nearfar.simulation.clock import Clock
from nearfar.simulation.dice import Purpose
from nearfar.simulation.link.model import Connection, LinkModel
from nearfar.simulation.link.trace import LinkTrace
from nearfar.simulation.outcome import Outcome, Sent
from nearfar.simulation.scenario import World
from nearfar.simulation.worker_model import WorkerModel
from pipelines.frame import Encoding
from pipelines.result import Load, WorkerTiming
from protos.wire.live import FrameHead
from protos.wire.session import RejectReason

HEAD_BYTES = 160
RESULT_BYTES = 700
PING_BYTES = 80
"""With framing and TCP/IP headers; a result of twenty boxes."""


class FarSide:
    """`do` carries out what the scheduler decides about an event of this link."""

    def __init__(
        self,
        name: str,
        trace: LinkTrace,
        *,
        clock: Clock,
        world: World,
        scheduler: Scheduler,
        outcome: Outcome,
        do: Callable[[Sequence[Action]], None],
    ) -> None:
        self.name = name
        self._clock = clock
        self._world = world
        self._scheduler = scheduler
        self._outcome = outcome
        self._do = do
        self._worker = WorkerModel(
            clock,
            service_us=world.worker_us,
            seen_us=world.scenario.worker.median_us,
            credit=world.scenario.credit,
        )
        self.link = LinkModel(clock, trace, world.dice, welcomed=self._welcomed)
        self._sent: dict[Key, Sent] = {}

    def send(self, action: SendFrame, *, size_bytes: int, answer_by_us: int) -> None:
        """Head and body on the current connection."""
        key, now_us = action.key, self._clock.now_us
        connection = self.link.current
        if connection is None:
            self._do(self._scheduler.send_failed(key, "link closed", now_us, link=self.name))
            return
        sent = Sent(key, now_us, action.p, action.probe, answer_by_us)
        self._outcome.sent.append(sent)
        self._outcome.up_bytes += HEAD_BYTES + size_bytes
        self._sent[key] = sent
        number = self._world.number(key)
        head = FrameHead(
            stream=0,
            seq=key[1],
            worker_budget_us=action.worker_budget_us,
            sent_mono_us=now_us,
            encoding=Encoding(
                codec="jpeg", quality=0, width_px=1, height_px=1, body_bytes=max(1, size_bytes)
            ),
            probe=action.probe,
        )
        connection.up.send(
            HEAD_BYTES,
            lambda: self._head_there(connection, key, head),
            purpose=Purpose.HEAD_LOST,
            number=number,
            followed=True,
        )
        connection.up.send(
            size_bytes, lambda: self._worker.body(key), purpose=Purpose.FRAME_LOST, number=number
        )

    def cancel(self, key: Key) -> None:
        """Tell the worker; as small and as quick as a ping."""
        connection = self.link.current
        if connection is None:
            return
        self._outcome.up_bytes += PING_BYTES
        connection.up.send(
            PING_BYTES,
            lambda: self._worker.cancel(key),
            purpose=Purpose.CANCEL_LOST,
            number=self._world.number(key),
        )

    def ping(self, nonce: int) -> None:
        connection = self.link.current
        if connection is None:
            return
        self._outcome.up_bytes += PING_BYTES

        def there() -> None:
            load = self._worker.load()
            connection.down.send(
                PING_BYTES, lambda: self._pong(nonce, load), purpose=Purpose.PONG_LOST, number=nonce
            )

        connection.up.send(PING_BYTES, there, purpose=Purpose.PING_LOST, number=nonce)

    def open_fresh(self) -> None:
        self.link.open_fresh()

    # -- back ---------------------------------------------------------------------------------------------

    def _welcomed(self, connection: Connection) -> None:
        credit = self._worker.welcome()
        self._do(self._scheduler.welcomed(self.name, connection.number, credit, self._clock.now_us))

    def _pong(self, nonce: int, load: Load) -> None:
        self._do(
            self._scheduler.pong(
                self.name,
                nonce,
                resident_us=0,
                load=load,
                credit=self._worker.window(load),
                now_us=self._clock.now_us,
            )
        )

    def _head_there(self, connection: Connection, key: Key, head: FrameHead) -> None:
        number = self._world.number(key)

        def replied(timing: WorkerTiming, load: Load) -> None:
            connection.down.send(
                RESULT_BYTES,
                lambda: self._result(key, timing, load),
                purpose=Purpose.RESULT_LOST,
                number=number,
            )

        def rejected(reason: RejectReason, load: Load) -> None:
            connection.down.send(
                PING_BYTES,
                lambda: self._rejected(key, reason, load),
                purpose=Purpose.RESULT_LOST,
                number=number,
            )

        self._worker.head(key, head, replied=replied, rejected=rejected)

    def _result(self, key: Key, timing: WorkerTiming, load: Load) -> None:
        now_us = self._clock.now_us
        self._sent[key].arrived_us = now_us
        self._do(self._scheduler.result(key, link=self.name, timing=timing, load=load, now_us=now_us))

    def _rejected(self, key: Key, reason: RejectReason, load: Load) -> None:
        counts = self._outcome.rejected
        counts[reason.value] = counts.get(reason.value, 0) + 1
        self._do(
            self._scheduler.rejected(
                key, link=self.name, reason=reason.value, load=load, now_us=self._clock.now_us
            )
        )

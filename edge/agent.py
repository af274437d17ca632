"""The agent: wires the parts of one gateway together and ends them in order.

    source → slot → DISPATCHER ─┬─ encoder → link ══ live lane ══► worker
      (one Reader a stream)     ├─ near
                                └─ shed (counted)
             answers → outbox (commit) → sinks, run directory
                       outbox ══ bulk lane ══► worker's record store

Capture never waits for anything behind the slot; whatever is unanswered at the end is counted.
"""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from edge.answers import AnswerDesk
from edge.capture.streams import Streams
from edge.config import PipelineConfig
from edge.counters import Counters
from edge.dispatcher import Dispatcher
from edge.encoder import Encoder
from edge.identity import StateDir
from edge.links.base import Link, Sent
from edge.links.kinds import LINKS
from edge.near import NearRunner, warm_up
from edge.outbox.bounds import Bounds
from edge.outbox.sqlite import SqliteOutbox
from edge.outbox.writer import OutboxWriter
from edge.run_dir import RunDir
from edge.scheduling.rung import Rung
from edge.scheduling.scheduler import Scheduler
from edge.scheduling.settings import LinkSettings, SchedulerSettings, StreamSettings
from edge.sinks.base import SinkThread
from edge.sinks.kinds import SINKS
from edge.summary import summary_of
from pipelines.codecs.kinds import CODECS
from pipelines.detectors.base import CancelToken, Detector
from pipelines.detectors.kinds import DETECTORS
from protos.wire.bulk import BulkBatch
from protos.wire.session import Hello, Lane

log = logging.getLogger(__name__)

STOP_WITHIN_US = 1_700_000
LEAST_S = 0.03


def monotonic_us() -> int:
    return time.monotonic_ns() // 1000


class Agent:
    """One gateway. `start`, then `wait` for the clips to end or `stop`; `close` answers what is open.

    `link` replaces the configured one (an in-process link, say). `max_frames` ends each stream early.
    The constructor loads and warms up the model; it raises ConfigError or Fatal when something is not there,
    and Cancelled after `cancel`.
    """

    dispatcher: Dispatcher

    def __init__(
        self,
        config: PipelineConfig,
        *,
        run_dir: Path | None = None,
        max_frames: int | None = None,
        link: Link | None = None,
        software: str = "nearfar",
        cancel: CancelToken | None = None,
    ) -> None:
        self._config = config
        self._cancel = cancel or CancelToken()
        self._software = software
        self._kept = True
        self._state = StateDir(config.state_dir)
        self.identity = self._state.identity(config.agent)
        self.run_dir = None if run_dir is None else RunDir(run_dir, clock_us=monotonic_us)
        self._streams = Streams(
            config.streams,
            max_frames=max_frames,
            offered=lambda stream: self.dispatcher.offered(stream),
            overwritten=lambda frame: self.dispatcher.overwritten(frame),
            captured=lambda stream, seq: self.dispatcher.captured(stream, seq),
            clock_us=monotonic_us,
        )
        self._sinks = [SinkThread(SINKS.build(s), name=s.kind) for s in config.sinks]
        self._link = link or self._build_link()
        self._link_name = next(iter(config.links), "link") if self._link is not None else ""
        near = self._load_near()
        self.counters = Counters()
        self._outbox = OutboxWriter(
            store=SqliteOutbox(
                config.state_dir / "outbox.db",
                durability=config.outbox.durability,
                bounds=Bounds(max_bytes=config.outbox.max_bytes, max_age_us=config.outbox.max_age),
            ),
            agent=self.identity.agent,
            run=self.identity.run,
            clock_us=monotonic_us,
            on_committed=lambda frame_id: self.dispatcher.committed(frame_id),
            send=self._send_bulk,
        )
        self._near = (
            None
            if near is None
            else NearRunner(near[0], done=lambda run: self.dispatcher.near_done(run), clock_us=monotonic_us)
        )
        rung = config.scheduler.ladder[0]
        self._encoder = (
            None
            if self._link is None
            else Encoder(
                CODECS[rung.codec].resolve()(),
                done=lambda e: self.dispatcher.encoded(e),
                clock_us=monotonic_us,
            )
        )
        self.dispatcher = Dispatcher(
            scheduler=self._scheduler(near[1] if near else 0),
            deadline_us=config.deadline,
            streams=self._streams.ports,
            near=self._near,
            encoder=self._encoder,
            link=self._link,
            outbox=self._outbox,
            desk=self._desk(near[0] if near else None),
            counters=self.counters,
            clock_us=monotonic_us,
        )

    # -- life ---------------------------------------------------------------------------------------------

    def start(self, *, ready: Callable[[], None] = lambda: None) -> None:
        """Capture, near answers and the outbox start at once, whether or not there is a cloud; `ready` is
        called just before the first frame is read."""
        self._outbox.start()
        self._outbox.reserve_now(port.name for port in self._streams.ports)
        for sink in self._sinks:
            sink.start()
        if self._near is not None:
            self._near.start()
        if self._encoder is not None:
            self._encoder.start()
        self.dispatcher.start()
        if self._link is not None:
            self._link.start(self._hello(), self.dispatcher.link_event)
        ready()
        self._streams.start()

    def wait(self, stop: threading.Event, *, poll_s: float = 0.05) -> bool:
        """Until every stream has ended (True) or `stop` is set (False)."""
        while not self._streams.ended.wait(poll_s):
            if stop.is_set():
                return False
        return True

    def drain(self, stop: threading.Event, within_us: int) -> None:
        """After the clips: answer what is open, then let the cloud learn everything, for `within_us`."""
        end_us = monotonic_us() + within_us
        self._outbox.flush()
        while monotonic_us() < end_us and not stop.is_set():
            if self.dispatcher.idle.is_set() and (self._link is None or self._outbox.empty()):
                return
            stop.wait(0.02)

    def close(self) -> None:
        """End everything in ≤ 2 s, in any state: open frames are answered or shed as `stopping`.

        What could not be kept, written or handed over in that time is counted, and named by `broken`.
        """
        end_us = monotonic_us() + STOP_WITHIN_US

        def rest_s(own_s: float) -> float:
            return max(LEAST_S, min(own_s, (end_us - monotonic_us()) / 1e6))

        self._streams.close(lambda: rest_s(0.3))
        self.dispatcher.drain()
        self.dispatcher.idle.wait(rest_s(min(self._config.deadline / 1e6 + 0.05, 0.8)))
        self.dispatcher.stop(rest_s(0.3))
        for sink in self._sinks:
            sink.end()
        if self._near is not None:
            self._near.close(rest_s(0.2))
        if self._encoder is not None:
            self._encoder.close(rest_s(0.2))
        if self._link is not None:
            self._link.close()
        self._kept = self._outbox.stop(int(rest_s(0.8) * 1e6))
        for sink in self._sinks:
            sink.close(rest_s(0.5))
        if self.run_dir is not None:
            self.run_dir.close(rest_s(0.5))
            self.run_dir.write_summary(self.summary())
        self._state.close()

    def summary(self) -> dict[str, object]:
        """The laws as numbers that add up, and what follows from them."""
        return {
            "agent": self.identity.agent,
            "run": self.identity.run.hex(),
            "policy": self._config.scheduler.policy,
            "deadline_ms": self._config.deadline / 1000,
            **summary_of(
                self.dispatcher,
                in_slots=self._streams.in_slots,
                outbox=self._outbox.stats(),
                sinks=self._sinks,
                link=self._link,
                run_dir=self.run_dir,
                now_us=monotonic_us(),
            ),
            "source_errors": self._streams.errors,
        }

    @property
    def broken(self) -> list[str]:
        """Promises that did not hold, in words; asked after `close`."""
        stats = self._outbox.stats()
        broken = [f"stream {name}: {error}" for name, error in self._streams.errors.items()]
        if self.counters.pending != self.dispatcher.pending_frames + self._streams.in_slots:
            broken.append(f"{self.counters.pending} frames are unaccounted for")
        if stats.balance != 0:
            broken.append("the outbox law does not add up")
        left = stats.uncommitted + stats.far_pending + stats.outcomes_pending
        if left or stats.lost or not self._kept:
            why = f" ({stats.last_error})" if stats.last_error else ""
            broken.append(f"{left + stats.lost} answers could not be kept in the outbox{why}")
        for sink in self._sinks:
            if sink.dropped or sink.failed:
                why = f" ({sink.last_error})" if sink.last_error else ""
                broken.append(f"{sink.dropped + sink.failed} answers did not reach the sink {sink.name}{why}")
        if self.run_dir is not None and self.run_dir.lost:
            broken.append(f"{self.run_dir.lost} frames have no line in the run directory")
        return broken

    # -- making the parts -----------------------------------------------------------------------------------

    def _build_link(self) -> Link | None:
        for name, link in self._config.links.items():
            made: Link = LINKS[link.url.partition("://")[0]].resolve()(
                name=name, url=link.url, clock_us=monotonic_us
            )
            return made
        return None

    def _load_near(self) -> tuple[Detector, int] | None:
        """The local detector, warmed up, and its slowest warm run in µs."""
        if self._config.near is None or self._config.scheduler.policy == "far_only":
            return None
        detector: Detector = DETECTORS.build(self._config.near.detector)
        info = self._streams.infos[0]
        runs_us = warm_up(detector, info.width_px, info.height_px, clock_us=monotonic_us, cancel=self._cancel)
        near_us = runs_us[len(runs_us) // 2]
        fps = self._streams.fps
        if near_us * fps > 1_000_000:
            log.warning(
                "near takes %.0f ms and %.0f frames/s come in: it cannot answer every frame when the link is down "
                "(%.1f cores needed of 1); use a smaller near input or fewer frames per second",
                near_us / 1000,
                fps,
                near_us * fps / 1e6,
            )
        if self._config.labels is not None:
            missing = sorted(set(self._config.labels) - set(detector.labels))
            if missing:
                log.warning("near never reports %s: its model has no such label", ", ".join(missing))
        return detector, runs_us[-1]

    def _scheduler(self, near_prior_us: int) -> Scheduler:
        config = self._config
        ladder = tuple(
            Rung(codec=step.codec, quality=step.quality, scale=step.scale, accuracy=step.accuracy)
            for step in config.scheduler.ladder
        )
        settings = SchedulerSettings(
            deadline_us=config.deadline,
            margin_us=config.scheduler.hedge.margin,
            policy=config.scheduler.policy,
            hedge=config.scheduler.hedge.start,
            min_p=config.scheduler.min_p,
            byte_price=config.scheduler.byte_price,
            ladder=ladder,
            links=(LinkSettings(name=self._link_name or "link"),),
            near_accuracy=config.near.accuracy if config.near is not None and near_prior_us else None,
            near_prior_us=near_prior_us,
            fall_back_above_us=config.rtt_budget.fall_back_above,
            return_below_us=config.rtt_budget.return_below,
        )
        streams = {
            info.name: StreamSettings(
                pixels=min(info.width_px * info.height_px, 640 * 640),
                size_px=(info.width_px, info.height_px),
                priority=port.priority,
            )
            for info, port in zip(self._streams.infos, self._streams.ports, strict=True)
        }
        return Scheduler(settings, streams)

    def _desk(self, near: Detector | None) -> AnswerDesk:
        return AnswerDesk(
            identity=self.identity,
            priorities={port.name: port.priority for port in self._streams.ports},
            labels=self._config.labels,
            far_model=self._config.far.model,
            near_name=near.name if near is not None else "",
            near_sha256=near.sha256 if near is not None else "",
            link_name=self._link_name,
            sinks=self._sinks,
            frame_log=self.run_dir,
            clock_us=monotonic_us,
        )

    def _hello(self) -> Hello:
        return Hello(
            agent=self.identity.agent,
            run=self.identity.run,
            lane=Lane.LIVE,
            streams=self._streams.infos,
            model=self._config.far.model,
            software=self._software,
        )

    # -- inside -------------------------------------------------------------------------------------------

    def _send_bulk(self, batch: BulkBatch) -> Sent:
        return Sent.DOWN if self._link is None else self._link.send(batch, lane=Lane.BULK)

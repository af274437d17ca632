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

from edge import readiness
from edge.answers import AnswerDesk
from edge.capture.streams import Streams
from edge.config import PipelineConfig
from edge.counters import Counters
from edge.dispatcher import Dispatcher
from edge.encoder import Encoder
from edge.facts import facts_of
from edge.identity import StateDir
from edge.latency import LatencyTally
from edge.link_log import LinkLog
from edge.links.base import Link, Sent
from edge.links.kinds import LINKS
from edge.near import NearRunner, warm_up
from edge.outbox.bounds import Bounds
from edge.outbox.oldest import oldest_age_us
from edge.outbox.sqlite import SqliteOutbox
from edge.outbox.stats import OutboxStats
from edge.outbox.writer import OutboxWriter
from edge.run_dir import RunDir
from edge.scheduling.rung import PRIOR_BITS_PER_PX, PRIOR_BITS_PER_PX_LOSSLESS, Rung, RungCost
from edge.scheduling.scheduler import Scheduler, SchedulerSettings
from edge.sinks.threads import build_sinks
from edge.summary import streams_summary, summary_of
from edge.vitals import Vitals, vitals_of
from pipelines.codecs.kinds import CODECS
from pipelines.detectors.base import CancelToken, Detector
from pipelines.detectors.kinds import DETECTORS
from pipelines.labels import LabelSpace
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
        self._stage = "it is starting"
        self.latency = LatencyTally(tuple(config.streams))
        self._started_unix_us = time.time_ns() // 1000
        self._outbox_before = OutboxStats()
        self._state = StateDir(config.state_dir)
        self.identity = self._state.identity(config.agent)
        self.run_dir = None if run_dir is None else RunDir(run_dir, clock_us=monotonic_us)
        self._streams = Streams(
            config.streams,
            deadline_us=config.deadline,
            max_frames=max_frames,
            offered=lambda stream: self.dispatcher.offered(stream),
            overwritten=lambda frame: self.dispatcher.overwritten(frame),
            stale=lambda frame: self.dispatcher.stale(frame),
            gated=lambda frame, why: self.dispatcher.gated(frame, why),
            captured=lambda stream, seq: self.dispatcher.captured(stream, seq),
            clock_us=monotonic_us,
        )
        self._link = link or self._build_link()
        self._labels = None if config.labels is None else LabelSpace(config.labels, config.label_map)
        self._link_name = next(iter(config.links), "link") if self._link is not None else ""
        near = self._load_near()
        # After the model, which may take long and be cancelled: a sink may hold a socket others connect to.
        self._sinks = build_sinks(config.sinks)
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
        scheduler = self._scheduler(near[1] if near else 0)
        self._answers = self._desk(near[0] if near else None)
        rung = config.scheduler.ladder[0]
        self._encoder = (
            None
            if self._link is None
            else Encoder(
                CODECS[rung.codec].resolve().from_config(rung),
                done=lambda e: self.dispatcher.encoded(e),
                clock_us=monotonic_us,
            )
        )
        self.dispatcher = Dispatcher(
            scheduler=scheduler,
            deadline_us=config.deadline,
            streams=self._streams.ports,
            near=self._near,
            encoder=self._encoder,
            link=self._link,
            outbox=self._outbox,
            desk=self._answers,
            counters=self.counters,
            clock_us=monotonic_us,
            link_log=None
            if self.run_dir is None
            else LinkLog(name=self._link_name, scheduler=scheduler, write=self.run_dir.link),
        )

    # -- life ---------------------------------------------------------------------------------------------

    def start(self, *, ready: Callable[[], None] = lambda: None) -> None:
        """Capture, near answers and the outbox start at once, whether or not there is a cloud; `ready` is
        called just before the first frame is read."""
        self._outbox.start()
        self._outbox.reserve_now(port.name for port in self._streams.ports)
        self._outbox_before = self._outbox.stats()
        for sink in self._sinks:
            sink.start()
        if self._near is not None:
            self._near.start()
        if self._encoder is not None:
            self._encoder.start()
        self.dispatcher.start()
        if self._link is not None:
            self._link.start(self._hello(), self.dispatcher.link_event)
        self._stage = ""
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
        self._stage = "it is stopping"
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
            self.run_dir.write_summary({**self.summary(), "broken": self.broken})
        self._state.close()

    def vitals(self) -> Vitals:
        """The agent at this moment; may be asked from any thread while it works."""
        return vitals_of(
            self.dispatcher,
            in_slots=self._streams.in_slots,
            streams=self._streams.states(),
            latency=self.latency,
            link=self._link,
            outbox=self._outbox.stats(),
            outbox_age_us=oldest_age_us(self._config.state_dir / "outbox.db"),
            sinks=self._sinks,
        )

    def not_ready(self) -> list[str]:
        """Why this agent does not do all its work, in words. A worker that is away is no reason: near answers."""
        if self._stage:
            return [self._stage]
        return readiness.reasons(
            streams=self._streams.states(),
            turned_us=self.dispatcher.glance.at_us,
            outbox_error=self._outbox.stats().last_error,
            now_us=monotonic_us(),
        )

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
            "facts": facts_of(
                self._config,
                streams=self._streams.infos,
                near=self._answers.near,
                far=self._answers.far_chosen,
                started_unix_us=self._started_unix_us,
            ),
            "streams": streams_summary(self._streams.states(), now_us=monotonic_us()),
            # The outbox counts over its whole life: what had happened to it before this run.
            "outbox_before": {
                "evicted": sum(self._outbox_before.evicted.values()),
                "set_aside": self._outbox_before.set_aside,
            },
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

    @property
    def left_behind(self) -> list[str]:
        """Streams whose camera still hangs in C code after `close`: if any, end the process with `os._exit`."""
        return self._streams.left_behind

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
        # A camera that has not given a picture yet has no size: then the model's own is warmed up.
        sizes = [(i.width_px, i.height_px) for i in self._streams.infos if i.width_px and i.height_px]
        width_px, height_px = sizes[0] if sizes else detector.input_size
        runs_us = warm_up(detector, width_px, height_px, clock_us=monotonic_us, cancel=self._cancel)
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
        if self._labels is not None:
            # without a link the near model is the only one there is
            for sentence in self._labels.complaints("near", detector.labels, None if self._link else ()):
                log.warning("%s", sentence)
        return detector, runs_us[-1]

    def _scheduler(self, near_prior_us: int) -> Scheduler:
        config = self._config
        step = config.scheduler.ladder[0]
        rung = Rung(codec=step.codec, quality=step.wire_quality, scale=step.scale, accuracy=step.accuracy)
        settings = SchedulerSettings(
            deadline_us=config.deadline,
            margin_us=config.scheduler.hedge.margin,
            policy=config.scheduler.policy,
            hedge=config.scheduler.hedge.start,
            min_p=config.scheduler.min_p,
            byte_price=config.scheduler.byte_price,
            rung=rung,
            near_accuracy=config.near.accuracy if config.near is not None and near_prior_us else None,
            near_prior_us=near_prior_us,
            fall_back_above_us=config.rtt_budget.fall_back_above,
            return_below_us=config.rtt_budget.return_below,
        )
        pixels = {i.name: min(i.width_px * i.height_px or 640 * 640, 640 * 640) for i in self._streams.infos}
        bits = PRIOR_BITS_PER_PX if rung.quality else PRIOR_BITS_PER_PX_LOSSLESS
        return Scheduler(settings, {name: RungCost(px, bits_per_px=bits) for name, px in pixels.items()})

    def _desk(self, near: Detector | None) -> AnswerDesk:
        return AnswerDesk(
            identity=self.identity,
            priorities={port.name: port.priority for port in self._streams.ports},
            labels=self._labels,
            near_labels=near.labels if near is not None else (),
            far_model=self._config.far.model,
            near_name=near.name if near is not None else "",
            near_sha256=near.sha256 if near is not None else "",
            link_name=self._link_name,
            sinks=[*self._sinks, self.latency],
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

"""Makes the parts of an agent from its configuration and joins them; whatever was opened is closed when one fails."""

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from edge.answers import AnswerDesk
from edge.capture.streams import Streams
from edge.config import PipelineConfig
from edge.counters import Counters
from edge.dispatcher import Dispatcher
from edge.encoder import Encoded, Encoder
from edge.identity import Identity, StateDir
from edge.latency import LatencyTally
from edge.link_log import LinkLog
from edge.links.base import Link, Sent
from edge.links.kinds import LINKS
from edge.near import NearRun, NearRunner, warm_up
from edge.outbox.bounds import Bounds
from edge.outbox.sqlite import SqliteOutbox
from edge.outbox.writer import OutboxWriter
from edge.run_dir import RunDir
from edge.scheduler_settings import scheduler_settings, stream_settings
from edge.scheduling.scheduler import Scheduler
from edge.sinks.base import SinkThread
from edge.sinks.threads import build_sinks
from pipelines.codecs.kinds import CODECS
from pipelines.detectors.base import CancelToken, Detector
from pipelines.detectors.kinds import DETECTORS
from pipelines.frame import Frame, FrameId
from pipelines.labels import LabelSpace
from pipelines.runtime import monotonic_us
from protos.wire.bulk import BulkBatch
from protos.wire.session import Lane

log = logging.getLogger(__name__)

LEAVE_WITHIN_S = 0.3
NO_LINK = "link"
"""What the scheduler's way is called where there is no link: one that is never connected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Nothing of it is started but what needs no start: the run directory's thread, and sinks others connect to.

    `near`: None without a local model; `encoder`: None without a link.
    """

    state: StateDir
    identity: Identity
    streams: Streams
    link: Link | None
    near: NearRunner | None
    encoder: Encoder | None
    run_dir: RunDir | None
    sinks: Sequence[SinkThread]
    outbox: OutboxWriter
    desk: AnswerDesk
    counters: Counters
    latency: LatencyTally
    dispatcher: Dispatcher


class _Reports:
    """What parts report to before there is a dispatcher, which is made last; nothing happens until it is started."""

    to: Dispatcher

    def offered(self, stream: str) -> None:
        self.to.offered(stream)

    def overwritten(self, frame: Frame) -> None:
        self.to.overwritten(frame)

    def stale(self, frame: Frame) -> None:
        self.to.stale(frame)

    def gated(self, frame: Frame, why: str) -> None:
        self.to.gated(frame, why)

    def captured(self, stream: str, seq: int) -> None:
        self.to.captured(stream, seq)

    def committed(self, frame_id: FrameId) -> None:
        self.to.committed(frame_id)

    def near_done(self, run: NearRun) -> None:
        self.to.near_done(run)

    def encoded(self, encoded: Encoded) -> None:
        self.to.encoded(encoded)


def assemble(
    config: PipelineConfig,
    *,
    run_dir: Path | None,
    max_frames: int | None,
    link: Link | None,
    cancel: CancelToken,
) -> Parts:
    """Everything an agent is made of, joined; see `Agent` for the arguments and what is raised.

    A link that is passed in stays its owner's when something fails.
    """
    reports = _Reports()
    with ExitStack() as opened:
        state = StateDir(config.state_dir)
        opened.callback(state.close)
        identity = state.identity(config.agent)
        streams = Streams(
            config.streams,
            deadline_us=config.deadline,
            max_frames=max_frames,
            offered=reports.offered,
            overwritten=reports.overwritten,
            stale=reports.stale,
            gated=reports.gated,
            captured=reports.captured,
            clock_us=monotonic_us,
        )
        opened.callback(streams.close, lambda: LEAVE_WITHIN_S)
        if link is None and (link := _build_link(config)) is not None:
            opened.callback(link.close)
        detector, near_prior_us = _load_near(
            config, streams=streams, has_link=link is not None, cancel=cancel
        )
        # After the model, which may take long and be cancelled: these set an earlier run aside, and hold a socket
        # that others connect to.
        run = None if run_dir is None else RunDir(run_dir, clock_us=monotonic_us)
        if run is not None:
            opened.callback(run.close)
        sinks = build_sinks(config.sinks)
        for sink in sinks:
            opened.callback(sink.close)
        counters = Counters()
        latency = LatencyTally(tuple(config.streams))
        outbox = OutboxWriter(
            store=SqliteOutbox(
                config.state_dir / "outbox.db",
                durability=config.outbox.durability,
                bounds=Bounds(max_bytes=config.outbox.max_bytes, max_age_us=config.outbox.max_age),
            ),
            agent=identity.agent,
            run=identity.run,
            clock_us=monotonic_us,
            on_committed=reports.committed,
            send=lambda batch: _send_bulk(link, batch),
            overdue=None if link is None else partial(link.open_fresh, Lane.BULK),
        )
        near = (
            None
            if detector is None
            else NearRunner(
                detector,
                labels=label_space(config),
                done=reports.near_done,
                clock_us=monotonic_us,
            )
        )
        encoder = (
            None
            if link is None
            else Encoder(
                [CODECS[rung.codec].resolve().from_config(rung) for rung in config.scheduler.ladder],
                done=reports.encoded,
                clock_us=monotonic_us,
            )
        )
        desk = AnswerDesk(
            identity=identity,
            labels=label_space(config),
            near_labels=detector.labels if detector is not None else (),
            far_model=config.far.model,
            near_name=detector.name if detector is not None else "",
            near_sha256=detector.sha256 if detector is not None else "",
            link_name="" if link is None else link.name,
            sinks=[*sinks, latency],
            frame_log=run,
            clock_us=monotonic_us,
        )
        settings = scheduler_settings(
            config,
            link=NO_LINK if link is None else link.name,
            near_prior_us=None if detector is None else near_prior_us,
        )
        dispatcher = reports.to = Dispatcher(
            scheduler=Scheduler(settings, stream_settings(config, streams.infos)),
            deadline_us=config.deadline,
            streams=streams.ports,
            near=near,
            encoder=encoder,
            link=link,
            outbox=outbox,
            desk=desk,
            counters=counters,
            clock_us=monotonic_us,
            link_log=None if run is None else LinkLog(write=run.link),
        )
        opened.pop_all()
    return Parts(
        state=state,
        identity=identity,
        streams=streams,
        link=link,
        near=near,
        encoder=encoder,
        run_dir=run,
        sinks=sinks,
        outbox=outbox,
        desk=desk,
        counters=counters,
        latency=latency,
        dispatcher=dispatcher,
    )


def label_space(config: PipelineConfig) -> LabelSpace | None:
    """The recipe's labels, anew for each thread that maps into them; None: every model keeps its own."""
    return None if config.labels is None else LabelSpace(config.labels, config.label_map)


def _build_link(config: PipelineConfig) -> Link | None:
    for name, link in config.links.items():
        made: Link = LINKS[link.url.partition("://")[0]].resolve()(
            name=name, url=link.url, clock_us=monotonic_us
        )
        return made
    return None


def _send_bulk(link: Link | None, batch: BulkBatch) -> Sent:
    return Sent.DOWN if link is None else link.send(batch, lane=Lane.BULK)


def _load_near(
    config: PipelineConfig, *, streams: Streams, has_link: bool, cancel: CancelToken
) -> tuple[Detector | None, int]:
    """The local detector, warmed up, and its slowest warm run in µs; None and 0 without one."""
    if config.near is None or config.scheduler.policy == "far_only":
        return None, 0
    labels = label_space(config)
    detector: Detector = DETECTORS.build(config.near.detector)
    # A camera that has not given a picture yet has no size: then the model's own is warmed up.
    sizes = [(i.width_px, i.height_px) for i in streams.infos if i.width_px and i.height_px]
    width_px, height_px = sizes[0] if sizes else detector.input_size
    runs_us = warm_up(detector, width_px=width_px, height_px=height_px, clock_us=monotonic_us, cancel=cancel)
    near_us = runs_us[len(runs_us) // 2]
    fps = streams.fps
    if near_us * fps > 1_000_000:
        log.warning(
            "near takes %.0f ms and %.0f frames/s come in: it cannot answer every frame when the link is down "
            "(%.1f cores needed of 1); use a smaller near input or fewer frames per second",
            near_us / 1000,
            fps,
            near_us * fps / 1e6,
        )
    if labels is not None:
        # without a link the near model is the only one there is
        for sentence in labels.complaints(who="near", labels=detector.labels, other=None if has_link else ()):
            log.warning("%s", sentence)
    return detector, runs_us[-1]

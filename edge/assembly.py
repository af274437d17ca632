"""Makes the parts of an agent from its configuration and joins them; whatever was opened is closed when one fails."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from edge.archive.archivist import Archivist
from edge.archive.assembly import build_archivist
from edge.capture.streams import Streams
from edge.config.pipeline import PipelineConfig
from edge.config.scheduler_settings import link_settings, scheduler_settings, stream_settings
from edge.far.budget_book import BudgetBook
from edge.far.bulk_way import BulkWay
from edge.far.ports import FarPorts
from edge.flow.answer_desk import AnswerDesk
from edge.flow.dispatcher import Dispatcher
from edge.flow.encoder import Encoder
from edge.flow.reports import Reports
from edge.flow.track_runner import TrackRunner
from edge.flow.tracking import Tracking
from edge.identity import Identity, StateDir
from edge.links.base import Link
from edge.links.kinds import LINKS
from edge.near.models import NearModels, load_near
from edge.near.names import NearNames
from edge.near.runner import NearRunner
from edge.outbox.bounds import Bounds
from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.file.storage import DiskStorage
from edge.outbox.writer import OutboxWriter
from edge.scheduling.scheduler import Scheduler
from edge.sinks.base import SinkThread
from edge.sinks.threads import build_sinks
from edge.telemetry.counters import Counters
from edge.telemetry.latency import LatencyTally
from edge.telemetry.run_dir import RunDir
from pipelines.codecs.kinds import CODECS
from pipelines.detectors.base import CancelToken
from pipelines.labels import LabelSpace
from pipelines.runtime import monotonic_us
from pipelines.trackers.kinds import TRACKERS

LEAVE_WITHIN_S = 0.3
NO_LINK = "link"
"""What the scheduler's way is called where there is no link: one that is never connected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Nothing of it is started but what needs no start: the run directory's thread, sinks others connect to, and the
    compressing of files that an earlier run left.

    `near`: None without a local model; `tracks`: None without a tracker; `encoder`: None without a link;
    `archive`: None if every result goes up alone.
    """

    state: StateDir
    identity: Identity
    streams: Streams
    links: Sequence[Link]
    near: NearRunner | None
    tracks: TrackRunner | None
    encoder: Encoder | None
    run_dir: RunDir | None
    sinks: Sequence[SinkThread]
    outbox: OutboxWriter
    archive: Archivist | None
    book: BudgetBook
    desk: AnswerDesk
    counters: Counters
    latency: LatencyTally
    dispatcher: Dispatcher


def assemble(
    config: PipelineConfig,
    *,
    run_dir: Path | None,
    max_frames: int | None,
    links: Sequence[Link] | None,
    cancel: CancelToken,
) -> Parts:
    """Everything an agent is made of, joined; see `Agent` for the arguments and what is raised.

    Links that are passed in stay their owner's when something fails.
    """
    reports = Reports()
    with ExitStack() as opened:
        state = StateDir(config.state_dir)
        opened.callback(state.close)
        identity = state.identity(config.agent)
        streams = _build_streams(config, reports, max_frames=max_frames)
        opened.callback(streams.close, lambda: LEAVE_WITHIN_S)
        if links is None:
            links = _build_links(config, opened)
        models = load_near(
            config, streams=streams, labels=label_space(config), has_link=bool(links), cancel=cancel
        )
        # After the model, which may take long and be cancelled: these set an earlier run aside, and hold a socket
        # that others connect to.
        run = None if run_dir is None else RunDir(run_dir, clock_us=monotonic_us)
        if run is not None:
            opened.callback(run.close)
        sinks = build_sinks(config.sinks, agent=identity.agent, run=identity.run, state_dir=config.state_dir)
        for sink in sinks:
            opened.callback(sink.close)
        counters = Counters()
        latency = LatencyTally(tuple(config.streams))
        outbox = _build_outbox(config, identity, reports)
        bulk = reports.bulk = BulkWay(
            links,
            metered={link.name: link_settings(config, link.name).metered for link in links},
            outbox=outbox,
        )
        near = None if models is None else _build_near(config, models, reports)
        encoder = _build_encoder(config, reports) if links else None
        names = NearNames() if models is None else models.names
        desk = AnswerDesk(
            identity=identity,
            labels=label_space(config),
            near_labels=() if models is None else models.full.labels,
            far_model=config.far.model,
            near=names,
            sinks=[*sinks, latency],
            in_order=sinks,
            frame_log=run,
            clock_us=monotonic_us,
        )
        settings = scheduler_settings(
            config,
            links=[link.name for link in links] or [NO_LINK],
            near_prior_us=None if models is None else models.prior_us,
            small_prior_us=None if models is None else models.smaller_prior_us,
        )
        tracks = _build_tracks(config, reports)
        tracking = None if tracks is None else Tracking(tracks, settings=settings, near=names)
        scheduler = Scheduler(settings, stream_settings(config, streams.infos))
        book = BudgetBook(
            config.state_dir / "data_budgets.json",
            {name: way.budget for name, way in scheduler.ways.items()},
            now_us=monotonic_us(),
        )
        far = (
            None
            if encoder is None
            else partial(
                FarPorts,
                links=links,
                bulk=bulk,
                encoder=encoder,
                scheduler=scheduler,
                outbox=outbox,
                desk=desk,
                counters=counters,
                streams=streams.ports,
                clock_us=monotonic_us,
                near=near is not None,
                on_result=(lambda _, __: None) if tracking is None else tracking.far_said,
                write_link=None if run is None else run.link,
                book=book,
            )
        )
        archive = build_archivist(
            config.uplink, config.outbox.keep, keep=outbox.keep_payload, clock_us=monotonic_us
        )
        dispatcher = reports.to = Dispatcher(
            scheduler=scheduler,
            deadline_us=config.deadline,
            streams=streams.ports,
            near=near,
            far=far,
            outbox=outbox,
            desk=desk,
            counters=counters,
            clock_us=monotonic_us,
            tracking=tracking,
            archive=archive,
        )
        opened.pop_all()
    return Parts(
        state=state,
        identity=identity,
        streams=streams,
        links=links,
        near=near,
        tracks=tracks,
        encoder=encoder,
        run_dir=run,
        sinks=sinks,
        outbox=outbox,
        archive=archive,
        book=book,
        desk=desk,
        counters=counters,
        latency=latency,
        dispatcher=dispatcher,
    )


def label_space(config: PipelineConfig) -> LabelSpace | None:
    """The recipe's labels, anew for each thread that maps into them; None: every model keeps its own."""
    return None if config.labels is None else LabelSpace(config.labels, config.label_map)


def _build_streams(config: PipelineConfig, reports: Reports, *, max_frames: int | None) -> Streams:
    return Streams(
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


def _build_links(config: PipelineConfig, opened: ExitStack) -> list[Link]:
    """In the order of the file; each is closed with `opened`."""
    links: list[Link] = []
    for name, link in config.links.items():
        made: Link = LINKS[link.url.partition("://")[0]].resolve()(
            name=name, url=link.url, clock_us=monotonic_us
        )
        opened.callback(made.close)
        links.append(made)
    return links


def _build_outbox(config: PipelineConfig, identity: Identity, reports: Reports) -> OutboxWriter:
    return OutboxWriter(
        store=SqliteOutbox(
            config.state_dir / "outbox.db",
            durability=config.outbox.durability,
            storage=DiskStorage(before=identity.keep),
            bounds=Bounds(
                max_bytes=config.outbox.max_bytes,
                max_age_us=config.outbox.max_age,
                coarsen=config.outbox.on_full == "coarsen",
            ),
        ),
        agent=identity.agent,
        run=identity.run,
        clock_us=monotonic_us,
        on_committed=reports.committed,
        send=reports.send_bulk,
        overdue=reports.bulk_overdue,
    )


def _build_near(config: PipelineConfig, models: NearModels, reports: Reports) -> NearRunner:
    return NearRunner(
        models.full,
        smaller=models.smaller,
        labels=label_space(config),
        done=reports.near_done,
        clock_us=monotonic_us,
    )


def _build_encoder(config: PipelineConfig, reports: Reports) -> Encoder:
    return Encoder(
        [CODECS[rung.codec].resolve().from_config(rung) for rung in config.scheduler.ladder],
        done=reports.encoded,
        clock_us=monotonic_us,
    )


def _build_tracks(config: PipelineConfig, reports: Reports) -> TrackRunner | None:
    if config.tracker is None:
        return None
    return TrackRunner(
        {name: TRACKERS.build(config.tracker) for name in config.streams},
        done=reports.tracked,
        clock_us=monotonic_us,
    )

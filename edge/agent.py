"""The agent: wires the parts of one gateway together and ends them in order.

    source → gate → slot → DISPATCHER ─┬─ encoder → the best link ══ live lane ══► its worker
      (one Reader a stream)            ├─ near
                                       ├─ tracker (carries the last answer forward)
                                       └─ shed (counted)
             answers → outbox (commit) → sinks, run directory
                └─ archivist (pictures that rules want) → outbox
                       outbox → one of the links ══ bulk lane ══► the workers' store

Capture never waits for anything behind the slot; whatever is unanswered at the end is counted.
"""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from edge.assembly import assemble, label_space
from edge.config.pipeline import PipelineConfig
from edge.far.labels import FarLabels
from edge.links.base import Link
from edge.outbox.file.oldest import oldest_age_us
from edge.precedence import Precedence
from edge.telemetry import readiness
from edge.telemetry.facts import facts_of
from edge.telemetry.promises import broken_promises
from edge.telemetry.summary import streams_summary, summary_of
from edge.telemetry.vitals import Vitals, vitals_of
from pipelines.detectors.base import CancelToken
from pipelines.runtime import monotonic_us
from protos.wire.session import Hello, Lane

STOP_WITHIN_US = 1_700_000
LEAST_S = 0.03


class Agent:
    """One gateway. `start`, then `wait` for the clips to end or `stop`; `close` answers what is open.

    `link` replaces the configured ones (by an in-process link, say, or several). `max_frames` ends each stream early.
    The constructor loads and warms up the model; it raises ConfigError or Fatal when something is not there,
    and Cancelled after `cancel`.
    """

    def __init__(
        self,
        config: PipelineConfig,
        *,
        run_dir: Path | None = None,
        max_frames: int | None = None,
        link: Link | Sequence[Link] | None = None,
        software: str = "nearfar",
        cancel: CancelToken | None = None,
    ) -> None:
        self._config = config
        self._software = software
        self._kept = True
        self._precedence = Precedence()
        self._ahead: list[str] = []  # threads that run before other programs
        self._stage = "it is starting"
        self._started_unix_us = time.time_ns() // 1000
        parts = assemble(
            config,
            run_dir=run_dir,
            max_frames=max_frames,
            links=None if link is None else list(link) if isinstance(link, Sequence) else [link],
            cancel=cancel or CancelToken(),
        )
        self.identity = parts.identity
        self.run_dir = parts.run_dir
        self.dispatcher = parts.dispatcher
        self.counters = parts.counters
        self.latency = parts.latency
        self._state = parts.state
        self._streams = parts.streams
        self._links = parts.links
        self._near = parts.near
        self._tracks = parts.tracks
        self._encoder = parts.encoder
        self._sinks = parts.sinks
        self._outbox = parts.outbox
        self._archive = parts.archive
        self._book = parts.book
        self._answers = parts.desk

    # -- life ---------------------------------------------------------------------------------------------

    def start(self, *, ready: Callable[[], None] = lambda: None) -> None:
        """Capture, near answers and the outbox start at once, whether or not there is a cloud; `ready` is
        called just before the first frame is read."""
        self._outbox.start()
        self._outbox.reserve_now(port.name for port in self._streams.ports)
        if self._archive is not None:
            self._archive.start()
        for sink in self._sinks:
            sink.start()
        if self._near is not None:
            self._near.start()
        if self._tracks is not None:
            self._tracks.start()
        if self._encoder is not None:
            self._encoder.start()
        self.dispatcher.start()
        for link in self._links:
            # A space of its own for each link: labels are mapped on the thread of the link that brings them.
            labels = FarLabels(
                label_space(self._config), deliver=partial(self.dispatcher.link_event, link.name)
            )
            link.start(self._hello(), labels.heard)
        if self._config.scheduler.real_time:
            links = [f"link-{link.name}" for link in self._links]
            self._ahead = self._precedence.start(decide=("dispatcher",), hand_on=("outbox-writer", *links))
        self._stage = ""
        ready()
        self._streams.start()

    def wait(self, stop: threading.Event, *, poll_s: float = 0.05) -> bool:
        """Until every stream has ended (True) or `stop` is set (False)."""
        while not self._streams.ended.wait(poll_s):
            if stop.is_set():
                return False
        return True

    def stop_capture(self) -> None:
        """Take no more pictures, as if every stream had ended; what is open is still answered."""
        self._streams.stop()

    def drain(self, stop: threading.Event, within_us: int) -> None:
        """After the clips: answer what is open, then let the cloud learn everything, for `within_us`."""
        end_us = monotonic_us() + within_us
        while monotonic_us() < end_us and not stop.is_set():
            archived = self._archive is None or self._archive.idle
            told = archived and (not self._links or self._outbox.empty())
            if self.dispatcher.idle.is_set() and told and all(sink.drained for sink in self._sinks):
                return
            self._outbox.flush()  # nothing new comes: what the last answers left behind need not wait for company
            stop.wait(0.02)

    def close(self) -> None:
        """End everything in ≤ 2 s, in any state: open frames are answered or shed as `stopping`.

        What could not be kept, written or handed over in that time is counted, and named by `broken`.
        """
        self._stage = "it is stopping"
        end_us = monotonic_us() + STOP_WITHIN_US

        def rest_s(own_s: float) -> float:
            return max(LEAST_S, min(own_s, (end_us - monotonic_us()) / 1e6))

        self._precedence.close()
        self._streams.close(lambda: rest_s(0.3))
        self.dispatcher.drain()
        self.dispatcher.idle.wait(rest_s(min(self._config.deadline / 1e6 + 0.05, 0.8)))
        self.dispatcher.stop(rest_s(0.3))
        for sink in self._sinks:
            sink.end()
        if self._near is not None:
            self._near.close(rest_s(0.2))
        if self._tracks is not None:
            self._tracks.close(rest_s(0.2))
        if self._encoder is not None:
            self._encoder.close(rest_s(0.2))
        if self._archive is not None:
            self._archive.close(rest_s(0.2))
        self._close_links()
        self._book.close({link.name: link.bytes_sent() for link in self._links}, monotonic_us())
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
            turned_us=self.dispatcher.turned_us,
            outbox_error=self._outbox.stats().last_error,
            now_us=monotonic_us(),
        )

    def degraded(self) -> list[str]:
        """What is not as good as it could be while every frame is answered: no link to answer far over, sinks whose
        answers do not get through, a worker that can read nothing of the backfill."""
        unread = self._outbox.stats().unread_words
        backfill = [f"backfill waits, the worker can read nothing of it: {unread}"] if unread else []
        sinks = [f"sink {sink.name}: {sink.trouble}" for sink in self._sinks if sink.trouble]
        policy = self._config.scheduler.policy
        return [*readiness.without_far(self.dispatcher.sights, policy=policy), *sinks, *backfill]

    def summary(self) -> dict[str, object]:
        """The laws as numbers that add up, and what follows from them."""
        return {
            "agent": self.identity.agent,
            "run": self.identity.run.hex(),
            "deadline_ms": self._config.deadline / 1000,
            **summary_of(
                self.dispatcher,
                in_slots=self._streams.in_slots,
                outbox=self._outbox.stats(),
                sinks=self._sinks,
                run_dir=self.run_dir,
            ),
            "facts": facts_of(
                self._config,
                streams=self._streams.infos,
                near=self._answers.near,
                near_smaller=self._answers.near_smaller,
                far=self._answers.far_chosen,
                started_unix_us=self._started_unix_us,
            ),
            "streams": streams_summary(self._streams.states(), now_us=monotonic_us()),
            # The outbox counts over its whole life: what had happened to it before this run.
            "outbox_before": {
                "evicted": sum(self._outbox.at_start.evicted.values()),
                "set_aside": self._outbox.at_start.set_aside,
            },
            "archive": None if self._archive is None else self._archive.counts._asdict(),
            "source_errors": self._streams.errors,
            "real_time": self._ahead,
        }

    @property
    def broken(self) -> list[str]:
        """Promises that did not hold, in words; asked after `close`."""
        return broken_promises(
            source_errors=self._streams.errors,
            unaccounted=self.counters.pending - self.dispatcher.pending_frames - self._streams.in_slots,
            outbox=self._outbox.stats(),
            kept=self._kept,
            sinks=self._sinks,
            run_dir=self.run_dir,
        )

    @property
    def left_behind(self) -> list[str]:
        """Streams whose camera still hangs in C code after `close`: if any, end the process with `os._exit`."""
        return self._streams.left_behind

    # -- inside -------------------------------------------------------------------------------------------

    def _close_links(self) -> None:
        """All at once: each may take its half second to say goodbye."""
        closing = [threading.Thread(target=link.close, name=f"close-{link.name}") for link in self._links]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()

    def _hello(self) -> Hello:
        hello = Hello(
            agent=self.identity.agent,
            run=self.identity.run,
            lane=Lane.LIVE,
            streams=self._streams.infos,
            software=self._software,
        )
        return self._config.far.asked_in(hello)

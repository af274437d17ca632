"""Far: a worker greets this agent, has its model, and answers over a link quick and wide enough.

Talks through the configured kind of link like an agent would, under a name and a run of its own, so an agent that
works beside it keeps its name. No frame is ever admitted: what measures the bandwidth is announced with no time left,
which every worker refuses on the head; the body crosses and is dropped. So no record is made.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TypeVar

from edge.config.pipeline import PipelineConfig
from edge.links.base import Connected, Link, LinkEvent, Received, Refused, Sent
from edge.links.kinds import LINKS
from nearfar.bounded import seconds
from nearfar.doctor.finding import Finding, fail, ok, warn
from nearfar.doctor.limits import Limit, as_asked
from pipelines.frame import Encoding, new_run
from pipelines.runtime import monotonic_us
from pipelines.units import format_extent
from pipelines.windows import quantile
from protos.wire.live import FrameBody, FrameHead
from protos.wire.session import Hello, Lane, Ping, Pong, RejectReason, StreamInfo, Welcome

E = TypeVar("E")

WITHIN_S = 3.0
PINGS = 10
PINGS_WITHIN_S = 2.0
BANDWIDTH_WITHIN_S = 2.0
LARGEST_PROBE_BYTES = 131_072
LEAST_PROBE_BYTES = 16_384
_TOO_QUICK_US = 2_000
_SUFFIX = "-doctor"
_LONGEST_NAME = 63


def name_beside(agent: str) -> str:
    """The doctor's name: the agent's with a suffix, so that its records and connections are not touched."""
    return agent[: _LONGEST_NAME - len(_SUFFIX)] + _SUFFIX


class Visit:
    """One link, opened for a few questions. Events come from the link's thread."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._events: SimpleQueue[LinkEvent] = SimpleQueue()
        self._nonce = 0
        self.deliver = self._events.put

    def until(self, wanted: Callable[[LinkEvent], E | None], *, within_s: float) -> E | None:
        """What `wanted` makes of the first event that is one; None when there is none in time."""
        until_s = time.monotonic() + within_s
        while (left_s := until_s - time.monotonic()) > 0:
            try:
                found = wanted(self._events.get(timeout=left_s))
            except Empty:
                return None
            if found is not None:
                return found
        return None

    def ping(self, *before: FrameHead | FrameBody, within_s: float) -> int | None:
        """µs from sending `before` and a ping until its pong, without the worker's own time; None without one."""
        self._nonce += 1
        nonce, sent_us = self._nonce, monotonic_us()
        if self._link.send(*before, Ping(nonce=nonce, sent_mono_us=sent_us)) is not Sent.ACCEPTED:
            return None

        def pong(event: LinkEvent) -> int | None:
            if (
                isinstance(event, Received)
                and isinstance(event.message, Pong)
                and event.message.nonce == nonce
            ):
                return max(1, event.arrived_us - sent_us - event.message.resident_us)
            return None

        return self.until(pong, within_s=within_s)


@contextmanager
def visit(config: PipelineConfig, url: str, *, agent: str) -> Iterator[Visit]:
    """Connected to the worker at `url` while the block runs, if it can be."""
    link: Link = LINKS[url.partition("://")[0]].resolve()(name="doctor", url=url, clock_us=monotonic_us)
    made = Visit(link)
    hello = Hello(
        agent=name_beside(agent),
        run=new_run(),
        lane=Lane.LIVE,
        # Sizes matter for boxes only, and none will come.
        streams=tuple(StreamInfo(name=name, width_px=640, height_px=360) for name in config.streams),
        software="nearfar doctor",
    )
    try:
        link.start(config.far.asked_in(hello), made.deliver)
        yield made
    finally:
        link.close()


def check_hello(
    config: PipelineConfig, met: Visit, *, limit: Limit = as_asked
) -> tuple[list[Finding], Welcome | None]:
    """The worker's welcome on both lanes, and its model; without one, why."""
    lanes: dict[Lane, Welcome] = {}

    def greeted(event: LinkEvent) -> Refused | bool | None:
        if isinstance(event, Connected):
            lanes[event.lane] = event.welcome
        return event if isinstance(event, Refused) else True if len(lanes) == len(Lane) else None

    limit_s = limit(WITHIN_S)
    answer = met.until(greeted, within_s=limit_s)
    if isinstance(answer, Refused):
        return list(_refusal(config, answer)), None
    welcome = lanes.get(Lane.LIVE)
    if welcome is None:
        words = f"no welcome within {seconds(limit_s)}"
        advice = (
            "the worker hangs or is overloaded: look at its log and its /readyz; a proxy may hold the port"
        )
        return [fail("hello", words=words, advice=advice)], None
    words = f"welcomed, protocol {welcome.protocol}, record store {welcome.store_id[:8]}"
    findings = [ok("hello", words=words)]
    if Lane.BULK not in lanes:
        words = f"the live lane was welcomed, the bulk lane was not within {seconds(limit_s)}: without it the outbox stays full"
        advice = "look at the worker's log; some proxies allow one connection only"
        findings.append(warn("bulk", words=words, advice=advice))
    model = welcome.models[0] if welcome.models else None
    if model is None:
        return [
            *findings,
            fail("model", words="the worker serves no model", advice="give it one in models"),
        ], None
    size = format_extent((model.input_width_px, model.input_height_px))
    words = f"{model.name} at {size}, {len(model.labels)} label{'s' if len(model.labels) != 1 else ''}, sha256 {model.sha256[:12]}"
    findings.append(ok("model", words=words))
    limits, credit = welcome.limits, welcome.credit
    words = f"messages up to {limits.message_bytes >> 10} KiB, {credit.frames} frames in flight"
    findings.append(ok("limits", words=words))
    return findings, welcome


def _refusal(config: PipelineConfig, refused: Refused) -> Iterator[Finding]:
    text = refused.error.text
    match refused.error.reason:
        case RejectReason.NO_MODEL:
            yield ok("hello", words="the worker answers this agent")
            wanted = f"far.model {config.far.model}" if config.far.model else "its default model"
            advice = "name a model it has in far.model, or add it to the worker"
            if config.far.sha256 or config.far.input:
                advice += "; where only its file or its input differs, mend far.sha256 or far.input"
            yield fail("model", words=f"{wanted}: {text}", advice=advice)
        case RejectReason.VERSION:
            yield fail("hello", words=text, advice="install the same version of nearfar on both sides")
        case RejectReason.DRAINING:
            yield fail("hello", words=text, advice="wait until it has started again")
        case _:
            yield fail("hello", words=text, advice="mend what the worker complains about")


def check_rtt(config: PipelineConfig, met: Visit, *, limit: Limit = as_asked) -> tuple[Finding, int | None]:
    """The median round trip in µs, against the band."""
    limit_s = limit(PINGS_WITHIN_S)
    until_s = time.monotonic() + limit_s
    trips: list[int] = []
    while len(trips) < PINGS and (left_s := until_s - time.monotonic()) > 0:
        took_us = met.ping(within_s=left_s)
        if took_us is None:
            break
        trips.append(took_us)
    if not trips:
        words = f"no ping came back within {seconds(limit_s)}"
        advice = "the worker or the way to it stalls: look at its load and at the network"
        return fail("rtt", words=words, advice=advice), None
    trips.sort()
    p50_us = int(quantile(trips, 0.5))
    band = config.rtt_budget
    words = f"{p50_us / 1000:.1f} ms (worst of {len(trips)}: {trips[-1] / 1000:.1f} ms)"
    words += (
        f"; offloaded up to {band.fall_back_above / 1000:g} ms, again from {band.return_below / 1000:g} ms"
    )
    if p50_us > band.fall_back_above:
        advice = "every frame is answered near; a worker nearby, another network, or a later deadline helps"
        return warn("rtt", words=words, advice=advice), p50_us
    if p50_us > band.return_below:
        words += ": once over budget it would not come back"
        advice = "raise rtt_budget.return_below, or find a quicker way"
        return warn("rtt", words=words, advice=advice), p50_us
    return ok("rtt", words=words), p50_us


def check_bandwidth(
    met: Visit,
    *,
    welcome: Welcome,
    rtt_us: int,
    frame_bytes: int,
    fps: float,
    gently: bool,
    limit: Limit = as_asked,
) -> tuple[Finding, float | None]:
    """Bytes per second up, against what the streams need; `gently`: an agent uses the same way right now."""
    most = min(LARGEST_PROBE_BYTES, welcome.limits.message_bytes // 2, welcome.credit.bytes)
    size = max(1, min(max(frame_bytes, LEAST_PROBE_BYTES) if gently else LARGEST_PROBE_BYTES, most))
    head, body = _probe(size)
    limit_s = limit(BANDWIDTH_WITHIN_S)
    took_us = met.ping(head, body, within_s=limit_s)
    need = frame_bytes * fps
    needed = f"{frame_bytes / 1000:.1f} kB a frame × {fps:g} frames/s need {_mbit(need)}"
    if took_us is None:
        words = f"{size / 1000:.0f} kB did not cross within {seconds(limit_s)}; {needed}"
        advice = "large packets may be lost on the way (MTU), or the uplink is very slow"
        return warn("bandwidth", words=words, advice=advice), None
    crossing_us = max(_TOO_QUICK_US, took_us - rtt_us)
    rate = size / crossing_us * 1e6
    least = "at least " if took_us - rtt_us <= _TOO_QUICK_US else "about "
    words = f"{least}{_mbit(rate)} up; {needed}"
    if rate < need:
        advice = (
            "fewer frames are offloaded than come; lower quality, scale or frames per second, or add a gate"
        )
        return warn("bandwidth", words=words, advice=advice), rate
    return ok("bandwidth", words=words), rate


def check_deadline(
    config: PipelineConfig, *, rtt_us: int, rate: float, frame_bytes: int, encode_us: int
) -> Finding:
    """Whether a far answer can be out by the deadline: encode, cross, and come back; the worker's time comes on top."""
    needed_us = encode_us + rtt_us + frame_bytes / rate * 1e6 + config.scheduler.hedge.margin
    words = f"a far answer takes {needed_us / 1000:.0f} ms and the worker's own time, of {config.deadline / 1000:g} ms"
    if needed_us >= config.deadline:
        advice = "far can never be in time: smaller pictures, a quicker way, or a later deadline"
        return warn("deadline", words=words, advice=advice)
    return ok("deadline", words=words)


def _probe(size_bytes: int) -> Sequence[FrameHead | FrameBody]:
    encoding = Encoding(codec="jpeg", quality=50, width_px=8, height_px=8, body_bytes=size_bytes)
    head = FrameHead(stream=0, seq=1, worker_budget_us=0, sent_mono_us=monotonic_us(), encoding=encoding)
    return head, FrameBody(stream=0, seq=1, data=bytes(size_bytes))


def _mbit(bytes_per_s: float) -> str:
    return (
        f"{bytes_per_s * 8 / 1e6:.2g} Mbit/s"
        if bytes_per_s < 1.25e6
        else f"{bytes_per_s * 8 / 1e6:.0f} Mbit/s"
    )

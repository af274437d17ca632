"""The way to one worker, layer by layer: dns ─ tcp ─ protocol ─ hello, model ─ rtt ─ bandwidth ─ deadline."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edge.config.pipeline import PipelineConfig
from edge.config.scheduler_settings import rung_of
from edge.kept_name import kept_name
from nearfar.bounded import within
from nearfar.doctor import far, network
from nearfar.doctor.finding import Finding, Level, fail, ok, skipped, words_of
from nearfar.doctor.limits import Limit
from nearfar.doctor.streams import Seen
from pipelines.codecs.base import Codec
from pipelines.codecs.kinds import CODECS
from pipelines.runtime import monotonic_us
from protos.wire.session import Welcome

LAYERS = ("dns", "tcp", "protocol", "hello", "model", "rtt", "bandwidth", "deadline")
_ENCODE_WITHIN_S = 1.0
_NEEDS_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Payload:
    """One frame as it would be sent."""

    size_bytes: int
    encode_us: int


def reach(url: str, *, limit: Limit) -> tuple[Sequence[Finding], bool]:
    """From the name of the worker to what answers there; whether it may be greeted."""
    address = network.Address.of(url)
    finding, addresses = network.check_name(address, limit=limit)
    findings = [finding]
    if addresses:
        finding, found = network.check_port(address, addresses, limit=limit)
        findings.append(finding)
        if found:
            findings.append(network.check_answer(address, found))
    if findings[-1].level is Level.FAIL:
        return [*findings, *_not_checked(findings[-1].layer)], False
    return findings, True


def _not_checked(failed: str) -> list[Finding]:
    """The layers of a link behind the one that failed."""
    behind = LAYERS[LAYERS.index(failed) + 1 :]
    return [skipped(layer, why=f"{failed} failed") for layer in behind]


def greet(
    config: PipelineConfig, url: str, seen: Sequence[Seen], *, fps: float, gently: bool, limit: Limit
) -> Iterator[Finding | Welcome]:
    """What the worker at `url` says and how the way to it does; its welcome among the findings."""
    if limit(_NEEDS_S) < _NEEDS_S:
        yield from (skipped(layer, why="other layers took all the time") for layer in LAYERS[3:])
        return
    with far.visit(config, url, agent=_agent(config)) as met:
        findings, welcome = far.check_hello(config, met, limit=limit)
        yield from findings
        if welcome is None:
            yield from _not_checked(findings[-1].layer)
            return
        yield welcome
        finding, rtt_us = far.check_rtt(config, met, limit=limit)
        yield finding
        if rtt_us is None:
            yield from _not_checked("rtt")
            return
        if not seen:
            yield from (skipped(layer, why="no stream gave a picture") for layer in ("bandwidth", "deadline"))
            return
        payload = None
        for said in _encoded(config, seen[0], welcome):
            if isinstance(said, _Payload):
                payload = said
            else:
                yield said
        if payload is None:
            yield from (skipped(layer, why="no payload could be made") for layer in ("bandwidth", "deadline"))
            return
        finding, rate = far.check_bandwidth(
            met,
            welcome=welcome,
            rtt_us=rtt_us,
            frame_bytes=payload.size_bytes,
            fps=fps,
            gently=gently,
            limit=limit,
        )
        yield finding
        if rate is None:
            yield skipped("deadline", why="the bandwidth is not known")
            return
        yield far.check_deadline(
            config, rtt_us=rtt_us, rate=rate, frame_bytes=payload.size_bytes, encode_us=payload.encode_us
        )


def _encoded(config: PipelineConfig, stream: Seen, welcome: Welcome) -> Iterator[Finding | _Payload]:
    """The first picture as the first rung of the ladder makes it, against the worker's limits."""
    step = config.scheduler.ladder[0]
    model = welcome.models[0]
    size = rung_of(step).size_px(stream.size_px, (model.input_width_px, model.input_height_px))
    try:
        codec: Codec = CODECS[step.codec].resolve().from_config(step)
        begun_us = monotonic_us()
        data, encoding = within(
            _ENCODE_WITHIN_S,
            lambda: codec.encode(stream.picture, quality=step.wire_quality, size=size),
            what="encoding",
        )
    except Exception as error:  # noqa: BLE001 - whatever a codec throws is what is to be told
        yield fail("payload", words=words_of(error), advice="choose another codec in scheduler.ladder")
        return
    encode_us = monotonic_us() - begun_us
    words = f"{step.codec} {encoding.width_px}x{encoding.height_px}: {len(data) / 1000:.1f} kB in {encode_us / 1000:.1f} ms"
    if len(data) > welcome.limits.message_bytes:
        words += f", the worker takes {welcome.limits.message_bytes / 1000:.0f} kB"
        advice = "lower quality or scale, or raise limits.message of the worker"
        yield fail("payload", words=words, advice=advice)
        return
    yield ok("payload", words=words)
    yield _Payload(size_bytes=len(data), encode_us=encode_us)


def _agent(config: PipelineConfig) -> str:
    """The name this agent has, or would have."""
    if config.agent is not None:
        return config.agent
    return kept_name(config.state_dir) or "gateway"

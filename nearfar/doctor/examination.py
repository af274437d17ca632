"""The order in which a gateway is examined. What a failed layer was needed for is said not to have been checked.

        state_dir, disk, clock, ports, sinks
        streams ─┬─ near ── cpu
        dns ─ tcp ─ protocol (of all links, beside the streams) ─ hello, model ─ rtt ─ bandwidth ─ deadline (link by link)

Every step is bounded, and the whole takes at most 15 s.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain

from edge.config.pipeline import MAX_LINKS, PipelineConfig
from edge.far.accord import Accord
from nearfar.doctor import machine, near, sinks, streams, way
from nearfar.doctor.finding import Finding, fail, ok
from nearfar.doctor.limits import Limit, allowance
from nearfar.doctor.near import NearCost
from nearfar.doctor.streams import Seen
from pipelines.cores import cores
from protos.wire.session import Welcome

WITHIN_S = 13.0


def examine(config: PipelineConfig) -> Iterator[Finding]:
    """Findings in the order of the layers, each as soon as it is known."""
    limit = allowance(WITHIN_S)
    runs = machine.agent_runs(config.state_dir)
    yield machine.check_agent(config, runs=runs)
    yield from machine.check_state_dir(config, limit=limit)
    yield machine.check_clock()
    yield from machine.check_http(config, runs=runs)
    yield from sinks.check_sinks(config, runs=runs, limit=limit)
    with ThreadPoolExecutor(MAX_LINKS, thread_name_prefix="way") as beside:
        reached = {
            name: beside.submit(way.reach, link.url, limit=limit) for name, link in config.links.items()
        }
        seen: list[Seen] = []
        for finding, stream in streams.look_at(config.streams, agent_runs=runs, limit=limit):
            yield finding
            if stream is not None:
                seen.append(stream)
        ways = {name: future.result() for name, future in reached.items()}
    fps = sum(stream.fps for stream in seen)
    cost: NearCost | None = None
    size_px = seen[0].size_px if seen else (640, 360)
    for said in near.check_near(config, size_px, limit=limit):
        if isinstance(said, NearCost):
            cost = said
        else:
            yield said
    if config.near is not None and config.scheduler.policy != "far_only":
        yield near.check_cpu(cost, fps=fps, cores=cores(), unseen=len(config.streams) - len(seen))
    welcomes: dict[str, Welcome] = {}
    for said_of in _links(config, ways, seen, fps=fps, gently=runs, limit=limit):
        if isinstance(said_of, Finding):
            yield said_of
        else:
            welcomes.update([said_of])
    yield from _accord(welcomes)
    models = [welcome.models[0] for welcome in welcomes.values() if welcome.models]
    far_labels = models[0].labels if models else None
    yield from near.check_labels(config, near=None if cost is None else cost.labels, far=far_labels)


def _links(
    config: PipelineConfig,
    ways: Mapping[str, tuple[Sequence[Finding], bool]],
    seen: Sequence[Seen],
    *,
    fps: float,
    gently: bool,
    limit: Limit,
) -> Iterator[Finding | tuple[str, Welcome]]:
    """One link after the other, so that none is measured while another sends; each welcome with the name of its link.
    A layer carries that name where there are several."""
    several = len(ways) > 1
    for name, (found, reached) in ways.items():
        told: list[Iterable[Finding | Welcome]] = [found]
        if reached:
            told.append(way.greet(config, config.links[name].url, seen, fps=fps, gently=gently, limit=limit))
        for said in chain.from_iterable(told):
            if isinstance(said, Welcome):
                yield name, said
            else:
                yield replace(said, layer=f"{said.layer} {name}") if several else said


def _accord(welcomes: Mapping[str, Welcome]) -> Iterator[Finding]:
    """Whether the workers of several links may be used side by side."""
    if len(welcomes) < 2:
        return
    accord = Accord()
    against = []
    for name, welcome in welcomes.items():
        words = accord.about_store(welcome)
        if not words and welcome.models:
            words = accord.about_model(name, welcome.models[0])
        if not words:
            accord.relies_on(welcome)
            if welcome.models:
                accord.joined(name, welcome.models[0])
        else:
            against.append(f"link {name}: {words.partition(':')[0]}")
    if against:
        advice = "an agent uses the first of them alone: give all workers one store.url and one model"
        yield fail("links", words="; ".join(against), advice=advice)
        return
    yield ok("links", words=f"{', '.join(welcomes)} lead to workers of one record store with one model")

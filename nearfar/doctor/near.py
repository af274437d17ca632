"""Near: whether the local model loads and runs, what it costs, and whether this machine has the time for it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edge.config.pipeline import PipelineConfig
from edge.near.runner import warm_up
from nearfar.bounded import LateError, within
from nearfar.doctor.finding import Finding, fail, ok, skipped, warn, words_of
from nearfar.doctor.limits import Limit, as_asked
from pipelines.detectors.base import CancelToken, Detector
from pipelines.detectors.kinds import DETECTORS, DetectorConfig, at_input
from pipelines.labels import LabelSpace
from pipelines.runtime import monotonic_us
from pipelines.windows import quantile

LOAD_WITHIN_S = 4.0
RUN_WITHIN_S = 3.0
_HELPS = 0.9
_FULL = 0.8
"""Of one core; above it nothing is left for capture, codecs and links on the same one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NearCost:
    """Times of one run in µs, threads it works with, labels it can report."""

    p50_us: int
    p95_us: int
    threads: int
    labels: Sequence[str]


def check_near(
    config: PipelineConfig, size_px: tuple[int, int], *, limit: Limit = as_asked
) -> Iterator[Finding | NearCost]:
    """Findings, and the cost once it is known; pictures of `size_px` (width, height). Nothing without a near."""
    if config.near is None or config.scheduler.policy == "far_only":
        return
    chosen = config.near.detector
    token = CancelToken()
    try:
        detector: Detector = within(limit(LOAD_WITHIN_S), lambda: DETECTORS.build(chosen), what="the model")
        runs = within(
            limit(RUN_WITHIN_S),
            lambda: warm_up(
                detector, width_px=size_px[0], height_px=size_px[1], clock_us=monotonic_us, cancel=token
            ),
            what="the first runs of the model",
        )
    except LateError as error:
        token.cancel()
        yield warn(
            "near", words=f"{error}: the agent needs longer than that to start, and its cost is not known"
        )
        return
    except Exception as error:  # noqa: BLE001 - whatever an engine throws is what is to be told
        advice = "put the model the file names in place, or change near.detector"
        yield fail("near", words=words_of(error), advice=advice)
        return
    cost = NearCost(
        p50_us=int(quantile(runs, 0.5)),
        p95_us=int(quantile(runs, 0.95)),
        threads=config.near.threads,
        labels=detector.labels,
    )
    words = f"{detector.name} runs in {cost.p50_us / 1000:.1f} ms (p95 {cost.p95_us / 1000:.1f} ms)"
    words += f" with {cost.threads} thread{'s' if cost.threads > 1 else ''}"
    margin_us = config.scheduler.hedge.margin
    if cost.p95_us > config.deadline - margin_us:
        words += f", the deadline is {config.deadline / 1000:.0f} ms"
        yield fail("near", words=words, advice="use a smaller near.detector.input, or a later deadline")
    else:
        yield ok("near", words=words)
    if config.near.smaller is not None:
        smaller = at_input(chosen, config.near.smaller.input)
        yield _smaller(smaller, size_px, full_us=cost.p50_us, limit=limit)
    yield cost


def _smaller(chosen: DetectorConfig, size_px: tuple[int, int], *, full_us: int, limit: Limit) -> Finding:
    """Whether the second input runs, and is enough quicker to be of use."""
    token = CancelToken()

    def measured() -> tuple[str, list[int]]:
        detector: Detector = DETECTORS.build(chosen)
        width_px, height_px = size_px
        runs = warm_up(detector, width_px=width_px, height_px=height_px, clock_us=monotonic_us, cancel=token)
        return detector.name, runs

    try:
        name, runs = within(limit(LOAD_WITHIN_S + RUN_WITHIN_S), measured, what="the smaller input")
    except LateError as error:
        token.cancel()
        return warn("near.smaller", words=f"{error}: its cost is not known")
    except Exception as error:  # noqa: BLE001 - as above
        advice = "choose an input the file runs at, or leave near.smaller out"
        return fail("near.smaller", words=words_of(error), advice=advice)
    p50_us = int(quantile(runs, 0.5))
    words = f"{name} runs in {p50_us / 1000:.1f} ms"
    if p50_us >= _HELPS * full_us:
        advice = "choose a smaller input, or leave near.smaller out"
        return warn("near.smaller", words=f"{words}: hardly quicker than the full input", advice=advice)
    return ok("near.smaller", words=words)


def check_cpu(cost: NearCost | None, *, fps: float, cores: float, unseen: int = 0) -> Finding:
    """Near cost × frames per second of all streams against the cores there are; `unseen` streams gave no picture."""
    if cost is None:
        return skipped("cpu", why="the near model did not run")
    if not fps:
        return skipped("cpu", why="nobody knows how many frames come; write fps on the source of each stream")
    busy = cost.p50_us * fps / 1e6
    words = f"near takes {busy:.2f} s of each second for {fps:g} frames/s ({cores:g} cores here)"
    if unseen:
        words += f", without {unseen} stream{'s' if unseen > 1 else ''} that gave no picture"
    if busy > 1:
        return warn(
            "cpu",
            words=f"{words}: it runs one frame at a time and cannot answer all of them when the link is down",
            advice="use a smaller near.detector.input, more near.threads, fewer frames per second, or a gate",
        )
    if busy * cost.threads > cores * _FULL:
        advice = "leave a core for capture, codecs and links: fewer frames, streams or threads"
        return warn("cpu", words=words, advice=advice)
    return ok("cpu", words=words)


def check_labels(
    config: PipelineConfig, *, near: Sequence[str] | None, far: Sequence[str] | None
) -> Iterator[Finding]:
    """Whether the models know the words of the recipe. None: what that model knows is not known."""
    if config.labels is None:
        if near and far and not set(near) & set(far):
            yield warn(
                "labels",
                words=f"near and far share no label ({', '.join(near[:3])} … against {', '.join(far[:3])} …)",
                advice="name those you want in `labels`",
            )
        return
    space = LabelSpace(config.labels, config.label_map)
    said = []
    if near is not None:
        said += space.complaints(who="near", labels=near, other=far if config.links else ())
    if far is not None:
        said += space.complaints(who="far", labels=far, other=near if config.near is not None else ())
    if said:
        advice = "mend `labels`, or use a model that knows them"
        yield warn("labels", words="; ".join(dict.fromkeys(said)), advice=advice)
    elif near is not None or far is not None:
        yield ok("labels", words=f"{', '.join(config.labels)}: known to the models")

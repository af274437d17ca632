"""Near: whether the local model loads and runs, what it costs, and whether this machine has the time for it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edge.agent import monotonic_us
from edge.config import PipelineConfig
from edge.near import warm_up
from nearfar.doctor.bounded import LateError, Limit, as_asked, within, words_of
from nearfar.doctor.finding import Finding, fail, ok, skipped, warn
from pipelines.detectors.base import CancelToken, Detector
from pipelines.detectors.kinds import DETECTORS
from pipelines.labels import LabelSpace
from pipelines.windows import quantile

LOAD_WITHIN_S = 4.0
RUN_WITHIN_S = 3.0
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
        detector: Detector = within(limit(LOAD_WITHIN_S), lambda: DETECTORS.build(chosen), "the model")
        runs = within(
            limit(RUN_WITHIN_S),
            lambda: warm_up(detector, *size_px, clock_us=monotonic_us, cancel=token),
            "the first runs of the model",
        )
    except LateError as error:
        token.cancel()
        yield warn("near", f"{error}: the agent starts that late, and its cost is not known")
        return
    except Exception as error:  # noqa: BLE001 - whatever an engine throws is what is to be told
        yield fail("near", words_of(error), "put the model the file names in place, or change near.detector")
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
        yield fail("near", words, "use a smaller near.detector.input, or a later deadline")
    else:
        yield ok("near", words)
    yield cost


def check_cpu(cost: NearCost | None, *, fps: float, cores: float) -> Finding:
    """Near cost × frames per second of all streams against the cores there are."""
    if cost is None:
        return skipped("cpu", "the near model did not run")
    if not fps:
        return skipped("cpu", "no stream says how many frames come")
    busy = cost.p50_us * fps / 1e6
    words = f"near takes {busy:.2f} s of each second for {fps:g} frames/s ({cores:g} cores here)"
    if busy > 1:
        return warn(
            "cpu",
            f"{words}: it runs one frame at a time and cannot answer all of them when the link is down",
            "use a smaller near.detector.input, more near.threads, fewer frames per second, or a gate",
        )
    if busy * cost.threads > cores * _FULL:
        return warn(
            "cpu", words, "leave a core for capture, codecs and links: fewer frames, streams or threads"
        )
    return ok("cpu", words)


def check_labels(
    config: PipelineConfig, *, near: Sequence[str] | None, far: Sequence[str] | None
) -> Iterator[Finding]:
    """Whether the models know the words of the recipe. None: what that model knows is not known."""
    if config.labels is None:
        if near and far and not set(near) & set(far):
            yield warn(
                "labels",
                f"near and far share no label ({', '.join(near[:3])} … against {', '.join(far[:3])} …)",
                "name those you want in `labels`",
            )
        return
    space = LabelSpace(config.labels, config.label_map)
    said = []
    if near is not None:
        said += space.complaints("near", near, far if config.links else ())
    if far is not None:
        said += space.complaints("far", far, near if config.near is not None else ())
    if said:
        yield warn("labels", "; ".join(dict.fromkeys(said)), "mend `labels`, or use a model that knows them")
    elif near is not None or far is not None:
        yield ok("labels", f"{', '.join(config.labels)}: known to the models")

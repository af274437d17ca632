"""From a pipeline as people write it to what a simulation needs.

What the recipe does not say is an argument: how long near and the worker take, how many frames a second come.
With measured accuracies the ladder and what each answer is worth come from them, else from the recipe.
"""

from dataclasses import dataclass, replace

from edge.config.pipeline import PipelineConfig
from edge.config.scheduler import NEEDS_NEAR
from edge.config.scheduler_settings import rung_of, scheduler_settings
from edge.scheduling.policies import POLICIES
from edge.scheduling.rung import Rung
from edge.scheduling.settings import SchedulerSettings, StreamSettings
from nearfar.simulation.accuracies import Accuracies, constant_accuracies
from nearfar.simulation.dice import Durations
from nearfar.simulation.link.trace import LinkTrace
from nearfar.simulation.run import SLOWEST_WARM_UP
from nearfar.simulation.scenario import Scenario
from pipelines.errors import ConfigError, Problem

DEFAULT_FPS = 15.0
DEFAULT_NEAR_US = 40_000
DEFAULT_WORKER_US = 20_000
FAR_PX = 640 * 360
"""Pixels of a picture at scale 1.0, where nothing says how large the far input is."""
NEVER_IN_TIME_US = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A scenario over one trace, with settings and streams for the scheduler; `policies` it can run."""

    scenario: Scenario
    settings: SchedulerSettings
    streams: dict[str, StreamSettings]
    policies: tuple[str, ...]

    def with_policy(self, policy: str) -> SchedulerSettings:
        return replace(self.settings, policy=policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """What the recipe leaves open. None = measured with the accuracies, else the default."""

    frames: int = 3000
    seed: int = 0
    fps: float | None = None
    near_us: int | None = None
    worker_us: int | None = None


def set_up(
    config: PipelineConfig, trace: LinkTrace, *, assumed: Assumed, accuracies: Accuracies | None = None
) -> Setup:
    """Raises ConfigError where the recipe's ladder has a rung that was not measured."""
    step = config.scheduler
    near_value = 0.0 if config.near is None else config.near.accuracy
    rungs = tuple(rung_of(rung) for rung in step.ladder)
    if accuracies is None:
        accuracies = constant_accuracies(rungs, near=near_value, pixels=FAR_PX)
    else:
        near_value = round(accuracies.near.f1, 4)
        if "ladder" in step.model_fields_set:
            accuracies = only(accuracies, rungs)
    near = _durations(assumed.near_us, accuracies.near_us, DEFAULT_NEAR_US)
    small = _smaller(config, near, accuracies)
    settings = scheduler_settings(
        config,
        links=(next(iter(config.links), trace.name),),
        near_prior_us=None if config.near is None else near.at(SLOWEST_WARM_UP),
        small_prior_us=None if small is None else small.at(SLOWEST_WARM_UP),
    )
    settings = replace(
        settings,
        ladder=accuracies.ladder,
        near_accuracy=None if config.near is None else near_value,
    )
    scenario = Scenario(
        links=(trace,),
        accuracies=accuracies,
        near=near if config.near is not None else Durations([NEVER_IN_TIME_US]),
        worker=_durations(assumed.worker_us, accuracies.worker_us, DEFAULT_WORKER_US),
        deadline_us=config.deadline,
        fps=assumed.fps or _fps(config),
        frames=assumed.frames,
        streams=tuple(config.streams),
        seed=assumed.seed,
        small_near=small,
    )
    streams = {
        name: StreamSettings(pixels=FAR_PX, priority=stream.priority)
        for name, stream in config.streams.items()
    }
    able = tuple(p for p in POLICIES if config.near is not None or p not in NEEDS_NEAR)
    return Setup(scenario=scenario, settings=settings, streams=streams, policies=able)


def only(accuracies: Accuracies, ladder: tuple[Rung, ...]) -> Accuracies:
    """Those rungs of what was measured that `ladder` names by codec, quality and scale."""
    measured = {(r.codec, r.quality, round(r.scale, 3)): i for i, r in enumerate(accuracies.ladder)}
    picked = []
    for number, rung in enumerate(ladder):
        at = measured.get((rung.codec, rung.quality, round(rung.scale, 3)))
        if at is None:
            there = ", ".join(f"quality {quality} scale {scale:g}" for _, quality, scale in measured)
            raise ConfigError(
                Problem(
                    f"quality {rung.quality} at scale {rung.scale:g} is not among the accuracies",
                    path=f"scheduler.ladder[{number}]",
                    allowed=there,
                )
            )
        picked.append(at)
    return replace(
        accuracies,
        ladder=tuple(accuracies.ladder[i] for i in picked),
        rungs=tuple(accuracies.rungs[i] for i in picked),
        size_bytes=tuple(accuracies.size_bytes[i] for i in picked),
        encode_us=tuple(accuracies.encode_us[i] for i in picked),
    )


def _smaller(config: PipelineConfig, near: Durations, accuracies: Accuracies) -> Durations | None:
    """Of the smaller near input: as measured, else as much quicker as it has fewer pixels."""
    if config.near is None or config.near.smaller is None:
        return None
    (width_px, height_px), full_px = config.near.smaller.input, config.near.detector.input
    ratio = width_px * height_px / (full_px[0] * full_px[1])
    return _durations(None, accuracies.small_near_us, round(near.median_us * ratio))


def _durations(given_us: int | None, measured_us: tuple[int, ...], default_us: int) -> Durations:
    if given_us is None and measured_us:
        return Durations(measured_us)
    return Durations.spread(default_us if given_us is None else given_us)


def _fps(config: PipelineConfig) -> float:
    """Of the quickest stream that says so."""
    said = [getattr(stream.source, "fps", None) for stream in config.streams.values()]
    return max((float(fps) for fps in said if fps), default=DEFAULT_FPS)

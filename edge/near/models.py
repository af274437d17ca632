"""The local model, ready to run: at its full input, and at a smaller one where the recipe asks for it.

Both are built and warmed up before the first frame, so that the first run of either is as quick as the others.
"""

import logging
from dataclasses import dataclass

from edge.capture.streams import Streams
from edge.config.pipeline import NearConfig, PipelineConfig
from edge.near.names import NearNames
from edge.near.runner import warm_up
from pipelines.detectors.base import CancelToken, Detector
from pipelines.detectors.kinds import DETECTORS, at_input
from pipelines.errors import ConfigError
from pipelines.labels import LabelSpace
from pipelines.runtime import monotonic_us

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NearModels:
    """`prior_us` and `smaller_prior_us`: the slowest warm run of each, which is what near is believed to take at first.
    `smaller` None: there is one input."""

    full: Detector
    prior_us: int
    smaller: Detector | None = None
    smaller_prior_us: int | None = None

    @property
    def names(self) -> NearNames:
        smaller = "" if self.smaller is None else self.smaller.name
        return NearNames(full=self.full.name, smaller=smaller, sha256=self.full.sha256)


def load_near(
    config: PipelineConfig,
    *,
    streams: Streams,
    labels: LabelSpace | None,
    has_link: bool,
    cancel: CancelToken,
) -> NearModels | None:
    """Built and warmed up; None where nothing is answered near.

    Raises ConfigError for a model that does not run as it is asked to, Cancelled after `cancel`.
    """
    if config.near is None or config.scheduler.policy == "far_only":
        return None
    full: Detector = DETECTORS.build(config.near.detector)
    smaller = _smaller(config.near)
    # A camera that has not given a picture yet has no size: then the model's own is warmed up.
    sizes = [(i.width_px, i.height_px) for i in streams.infos if i.width_px and i.height_px]
    size_px = sizes[0] if sizes else full.input_size
    runs_us = _runs_us(full, size_px, cancel)
    smaller_us = None if smaller is None else _runs_us(smaller, size_px, cancel)
    _complain(runs_us, smaller_us, fps=streams.fps)
    if labels is not None:
        # without a link the near model is the only one there is
        for sentence in labels.complaints(who="near", labels=full.labels, other=None if has_link else ()):
            log.warning("%s", sentence)
    return NearModels(
        full=full,
        prior_us=runs_us[-1],
        smaller=smaller,
        smaller_prior_us=None if smaller_us is None else smaller_us[-1],
    )


def _smaller(near: NearConfig) -> Detector | None:
    if near.smaller is None:
        return None
    try:
        made: Detector = DETECTORS.build(at_input(near.detector, near.smaller.input))
    except ConfigError as error:
        raise ConfigError(f"near.smaller: {error}") from error
    return made


def _runs_us(detector: Detector, size_px: tuple[int, int], cancel: CancelToken) -> list[int]:
    return warm_up(detector, width_px=size_px[0], height_px=size_px[1], clock_us=monotonic_us, cancel=cancel)


def _complain(runs_us: list[int], smaller_us: list[int] | None, *, fps: float) -> None:
    near_us = runs_us[len(runs_us) // 2]
    if near_us * fps > 1_000_000:
        log.warning(
            "near takes %.0f ms and %.0f frames/s come in: it cannot answer every frame when the link is down "
            "(%.1f cores needed of 1); use a smaller near input or fewer frames per second",
            near_us / 1000,
            fps,
            near_us * fps / 1e6,
        )
    if smaller_us is not None and smaller_us[len(smaller_us) // 2] >= 0.9 * near_us:
        log.warning(
            "near.smaller takes %.0f ms, the full input %.0f ms: it helps no frame; choose a smaller input or leave it out",
            smaller_us[len(smaller_us) // 2] / 1000,
            near_us / 1000,
        )

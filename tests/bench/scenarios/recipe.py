"""The two YAML files of a run, as a person would write them."""

from collections.abc import Sequence
from pathlib import Path

from tests.bench.scenarios.clip_cache import LADDERS, ClipCache
from tests.bench.vtest_accuracies import CLIP, FAR_PX, MIN_SCORE, MODEL, NEAR_PX

FAR_MODEL = "yolox-512"
AGENT = "bench"
PORT = 7440

PIPELINE = """\
version: 1
agent: {agent}
state_dir: {root}/gateway
deadline: {deadline_ms}ms
labels: [person]
streams:
  street: {{source: {{kind: file, path: {clip}, pace: real_time, loop: true, frames: latest, fps: {fps:g}}}}}
near:
  detector: {{kind: yolox, model: {model}, input: {near}x{near}, min_score: {min_score}}}
  accuracy: {near_accuracy}
  threads: 1
far: {{model: {far_model}}}
links:
  way: {{url: "{link}://{host}:{port}"}}
scheduler:
  policy: {policy}
  ladder:
{ladder}
drain: 5s
"""
WORKER = """\
version: 1
name: bench-worker
state_dir: {root}/worker
listen:
  {link}: {{address: "0.0.0.0:{port}", insecure: true}}
  http: null
models:
  {far_model}:
    detector: {{kind: yolox, model: {model}, input: {far}x{far}, min_score: {min_score}}}
    threads: 1
"""


def ladder_of(name: str, cache: ClipCache) -> list[tuple[int, float, float]]:
    """(quality, scale, accuracy) of each rung, calibrated on the clip."""
    return [(quality, scale, round(cache.f1((quality, scale)), 4)) for quality, scale in LADDERS[name]]


def pipeline_yaml(
    root: Path,
    *,
    policy: str,
    deadline_ms: int,
    fps: float,
    host: str,
    link: str,
    ladder: Sequence[tuple[int, float, float]],
    near_accuracy: float,
) -> str:
    rungs = "\n".join(
        f"    - {{codec: jpeg, quality: {quality}, scale: {scale:g}, accuracy: {accuracy}}}"
        for quality, scale, accuracy in ladder
    )
    return PIPELINE.format(
        agent=AGENT,
        root=root,
        clip=CLIP,
        model=MODEL,
        near=NEAR_PX,
        min_score=MIN_SCORE,
        far_model=FAR_MODEL,
        port=PORT,
        policy=policy,
        deadline_ms=deadline_ms,
        fps=fps,
        host=host,
        link=link,
        ladder=rungs,
        near_accuracy=round(near_accuracy, 4),
    )


def worker_yaml(root: Path, *, link: str) -> str:
    return WORKER.format(
        root=root, link=link, port=PORT, far_model=FAR_MODEL, model=MODEL, far=FAR_PX, min_score=MIN_SCORE
    )

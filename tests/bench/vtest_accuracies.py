"""Makes the accuracies `simulate` needs, once per model: YOLOX over vtest.avi, near, far at every rung, reference.

    python -m tests.bench.vtest_accuracies [--within 55]

Near is YOLOX@224 on raw frames, far YOLOX@512 on what the codec left of them, the reference YOLOX@640 on raw
frames; persons with a score of at least .35, matched as `nearfar calibrate` does it. Runs in parts: what was done is kept
in a cache folder outside the repository, and a later call goes on from there.
"""

import argparse
import hashlib
import os
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from edge.config.scheduler_settings import rung_of
from nearfar.calibrate.clips import every_nth
from nearfar.calibrate.common_labels import CommonLabels
from nearfar.calibrate.local_far import LocalFar
from nearfar.calibrate.rows import Row, as_file
from nearfar.calibrate.trial import Trial
from nearfar.simulation.accuracies import write_accuracies
from pipelines.codecs.base import PictureLimits
from pipelines.codecs.kinds import RungConfig
from pipelines.detectors.base import Detector
from pipelines.frame import Picture

SHARED = Path(__file__).parents[2].parent / "shared"
CLIP = SHARED / "data/video/vtest.avi"
MODEL = SHARED / "data/models/yolox_nano_dyn.onnx"
NEAR_PX, FAR_PX, REFERENCE_PX = 224, 512, 640
SMALL_NEAR_PX = 160
RUNGS = (
    (80, 1.0),
    (50, 1.0),
    (20, 1.0),
    (50, 0.75),
    (20, 0.75),
    (50, 0.5),
    (20, 0.5),
    (35, 0.375),
)
"""(JPEG quality, scale relative to the far input)."""
LADDER = tuple(RungConfig(codec="jpeg", quality=quality, scale=scale) for quality, scale in RUNGS)
PERSON = "person"
MIN_SCORE = 0.35
LIMITS = PictureLimits(pixels=1 << 24, decoded_bytes=1 << 26)


def cache_file() -> Path:
    """Where the accuracies of this model and these rungs are; its name says what they are made of."""
    root = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "nearfar-bench"
    made_of = hashlib.sha256(MODEL.read_bytes() + CLIP.read_bytes()[:65536] + repr(RUNGS).encode())
    return root / f"vtest-{made_of.hexdigest()[:12]}.json"


def trial() -> Trial:
    """The four detectors, loaded once."""
    from pipelines.detectors.yolox import Yolox  # noqa: PLC0415 - needs onnxruntime

    def load(side_px: int) -> Detector:
        made: Detector = Yolox(model=MODEL, input_size=(side_px, side_px), min_score=MIN_SCORE, threads=1)
        return made

    near, far, reference = load(NEAR_PX), load(FAR_PX), load(REFERENCE_PX)
    return Trial(
        near=near,
        smaller=[load(SMALL_NEAR_PX)],
        far=LocalFar(far, model="far", limits=LIMITS),
        reference=reference.detect,
        ladder=LADDER,
        labels=CommonLabels([PERSON], {}, near=near.labels, far=far.labels),
    )


def pictures(*, first: int = 0) -> Iterator[Picture]:
    return islice(every_nth([CLIP], every=1).pictures(), first, None)


def prepare(within_s: float) -> Path | None:
    """The finished file, or None when there was not enough time: call again."""
    target = cache_file()
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".rows")
    rows = [Row.model_validate_json(line) for line in part.read_text().splitlines()] if part.exists() else []
    until_s = time.monotonic() + within_s
    bench = trial()
    with part.open("a") as kept:
        for picture in pictures(first=len(rows)):
            rows.append(bench.row(picture))
            kept.write(rows[-1].model_dump_json() + "\n")
            kept.flush()
            if time.monotonic() > until_s:
                return None
    made_from = f"{CLIP.name}: {MODEL.name} near@{NEAR_PX}, far@{FAR_PX}, reference@{REFERENCE_PX}"
    write_accuracies(as_file(rows, [rung_of(rung) for rung in LADDER], made_from=made_from), target)
    part.unlink()
    return target


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.vtest_accuracies", description=__doc__)
    parser.add_argument("--within", type=float, default=55.0, help="seconds this call may take")
    made = prepare(parser.parse_args().within)
    print(made or "not finished: call again")
    sys.exit(0 if made else 1)


if __name__ == "__main__":
    main()

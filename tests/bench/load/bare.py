"""`python -m tests.bench.load.bare SECONDS`: the stub detector in a loop and nothing else; prints runs a second."""

import sys
import time

import numpy as np

from pipelines.detectors.synthetic import SyntheticDetector
from pipelines.runtime import tune
from tests.bench.load.picture import HEIGHT_PX, WIDTH_PX
from tests.bench.load.worker import SERVICE_MS

WARM_UP_RUNS = 20


def main() -> None:
    tune()
    detector = SyntheticDetector(delay_us=SERVICE_MS * 1000)
    picture = np.full((HEIGHT_PX, WIDTH_PX, 3), 90, np.uint8)
    for _ in range(WARM_UP_RUNS):
        detector.detect(picture)
    runs, begun_s = 0, time.perf_counter()
    until_s = begun_s + float(sys.argv[1])
    while time.perf_counter() < until_s:
        detector.detect(picture)
        runs += 1
    print(runs / (time.perf_counter() - begun_s))


if __name__ == "__main__":
    main()

"""The scenarios benchmark: its figures of runs that were made up, where the right ones are known."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.codecs.base import PictureLimits
from pipelines.errors import Rejected
from pipelines.frame import Encoding
from tests.bench.scenarios import score
from tests.bench.scenarios.cached_worker import CachedCodec, CachedDetector
from tests.bench.scenarios.catalogue import LONG_S, SCENARIOS, chosen
from tests.bench.scenarios.clip_cache import ALL_RUNGS, ClipCache, digest_of
from tests.bench.scenarios.events import wall_clock_for
from tests.bench.scenarios.recipe import ladder_of, pipeline_yaml, worker_yaml

BOX = [10.0, 10.0, 50.0, 90.0]
ELSEWHERE = [200.0, 10.0, 240.0, 90.0]
LIMITS = PictureLimits(pixels=1 << 20, decoded_bytes=1 << 22)
BEGUN_UNIX_S = 1_000_000.0


def cache(frames: int = 4) -> ClipCache:
    """One person a frame; far finds it at every rung, near in none."""
    return ClipCache(
        [
            {
                "reference": [BOX],
                "near": [0, 1, 9_000],
                "small_near": [0, 0, 5_000],
                "confidence": 0.5,
                "rungs": [
                    {
                        "digest": digest_of(f"{frame} {rung}".encode()),
                        "size_bytes": 1000 + 100 * frame + rung,
                        "boxes": [BOX],
                        "scores": [0.9],
                        "counts": [1, 0],
                        "run_us": 1_000,
                        "encode_us": 500,
                        "decode_us": 500,
                    }
                    for rung in range(len(ALL_RUNGS))
                ],
            }
            for frame in range(frames)
        ]
    )


def line(seq: int, by: str = "far", **changes: Any) -> dict[str, Any]:
    """A frame of 10 fps, answered far after 50 ms."""
    far = by == "far"
    return {
        "seq": seq,
        "captured_unix_ms": 1000 * BEGUN_UNIX_S + 100 * (seq - 1),
        "outcome": "answered",
        "answered_by": by,
        "latency_ms": 50.0,
        "on_time": by in ("far", "near"),
        "late_far": False,
        "reason": "",
        "encoding": {"bytes": 1000 + 100 * ((seq - 1) % 4), "quality": 80, "width": 4, "height": 3}
        if far
        else None,
        "timing": {"detect": 9.0},
        "detections": [{"label": "person", "score": 0.9, "box": BOX if far else ELSEWHERE}],
    } | changes


def run_folder(root: Path, lines: list[dict[str, Any]], sights: list[dict[str, Any]]) -> Path:
    """As an agent and a worker would leave it; the worker's store has every answer but the first."""
    (root / "run").mkdir()
    (root / "worker").mkdir()
    (root / "run/frames.jsonl").write_text("".join(json.dumps(x) + "\n" for x in reversed(lines)))
    (root / "run/link.jsonl").write_text("".join(json.dumps(x) + "\n" for x in sights))
    summary = {
        "far": {"payload_bytes": 4000, "offloaded": 3, "rejected": {}},
        "near": {"runs": 1},
        "links": {"way": {"connections": 1}},
        "near_guard_ms": 10.0,
        "margin_ms": 4.0,
        "outbox": {"committed": 1, "acked": 1, "pending": 0},
    }
    (root / "run/summary.json").write_text(json.dumps(summary))
    store = sqlite3.connect(root / "worker/records.db")
    store.execute("CREATE TABLE records (agent, answered_by, far_status)")
    for x in lines[1:]:
        if x["answered_by"]:
            store.execute("INSERT INTO records VALUES ('bench', ?, 'ok')", (x["answered_by"],))
    store.commit()
    store.close()
    return root


def figures(
    root: Path, lines: list[dict[str, Any]], spans: Any = (), sights: Any = (), left_out: Any = frozenset()
) -> dict[str, Any]:
    return score.figures(
        run_folder(root, lines, list(sights)),
        cache(),
        spans=list(spans),
        begun_unix_s=BEGUN_UNIX_S,
        frames=len(lines),
        left_out=left_out,
    )


def test_a_late_answer_and_none_count_as_nothing_seen(tmp_path: Path) -> None:
    found = figures(
        tmp_path,
        [
            line(1),
            line(2, on_time=False),
            line(3, "missed", detections=None, on_time=False),
            line(4, outcome="shed", answered_by=None, reason="overload", on_time=False, latency_ms=None),
        ],
    )
    assert found["on_time"] == 0.25
    assert found["f1"] == pytest.approx(2 * 1 / (1 + 4))  # one hit, nothing wrong, four there
    assert found["far_free_f1"] == 1.0
    assert found["shed"] == {"overload": 1}
    assert found["not_in_the_cloud"] == 3 - 2, "three answers, of which the store has two"


def test_a_frame_that_the_machine_disturbed_counts_in_no_rate_and_is_told(tmp_path: Path) -> None:
    lines = [line(1), line(2, on_time=False), line(3), line(4)]
    found = figures(tmp_path, lines, left_out={1})
    assert (found["left_out"], found["on_time"], found["f1"]) == (1, 1.0, 1.0)
    assert (found["captured"], found["on_time_all"]) == (4, 0.75)


def test_a_near_answer_that_sees_something_else_is_wrong_twice(tmp_path: Path) -> None:
    assert figures(tmp_path, [line(1, "near")])["f1"] == 0.0


def test_a_payload_that_is_none_of_its_frame_shows(tmp_path: Path) -> None:
    encoding = {"bytes": 7, "quality": 80, "width": 4, "height": 3}
    assert figures(tmp_path, [line(1), line(2, encoding=encoding), line(5)])["misplaced"] == 1


def test_leaving_and_coming_back_are_measured_from_what_happened(tmp_path: Path) -> None:
    lines = [line(seq, "near" if 21 <= seq <= 33 else "far") for seq in range(1, 81)]
    sights = [
        {"unix_ms": 1000 * (BEGUN_UNIX_S + at_s), "in_budget": good}
        for at_s, good in ((0.5, True), (2.25, False), (3.4, True))
    ]
    found = figures(tmp_path, lines, [(2.0, 3.0)], sights)
    assert found["over_budget_after_ms"] == [250.0]
    assert found["far_again_ms"] == [pytest.approx(350.0)]  # frame 34: 3.3 s + 50 ms
    assert found["share_regained"] == [1.0]


def test_what_never_came_back_is_said_to_be_never(tmp_path: Path) -> None:
    lines = [line(seq, "far" if seq <= 20 else "near") for seq in range(1, 61)]
    assert figures(tmp_path, lines, [(2.0, 3.0)])["far_again_ms"] == [None]


def test_after_an_event_only_far_answers_of_later_frames_count(tmp_path: Path) -> None:
    lines = [line(seq, "near" if 23 <= seq <= 30 else "far") for seq in range(1, 61)]
    found = figures(tmp_path, lines, [(2.0, 2.0)])
    assert found["far_again_ms"] == [pytest.approx(1050.0)]  # frame 31: 3.0 s + 50 ms


def test_the_scripted_worker_answers_what_it_knows_and_refuses_the_rest() -> None:
    codec = CachedCodec(cache())
    detector = CachedDetector(codec.seen, typical_us=1_000, service_us=1_000)
    encoding = Encoding(codec="jpeg", quality=80, width_px=4, height_px=3, body_bytes=3)
    seen = detector.detect(codec.decode(b"2 0", encoding, LIMITS))
    assert seen.boxes.tolist() == [BOX]
    with pytest.raises(Rejected, match="not in the cache"):
        codec.decode(b"2 99", encoding, LIMITS)
    assert (codec.known, codec.unknown) == (1, 1)
    assert len(detector.detect(np.zeros((32, 32, 3), np.uint8))) == 0, "warming up"


def test_scenarios_are_chosen_by_the_beginning_of_their_names() -> None:
    assert [s.name for s in chosen("lte,steady")] == ["lte_verizon", "lte_att", "steady"]
    assert chosen("") == list(SCENARIOS)
    with pytest.raises(KeyError, match="there are steady"):
        chosen("nothing")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_everything_happens_in_a_short_run_too(scenario: Any) -> None:
    run_s = LONG_S / 6
    short = scenario.squeezed(run_s)
    assert all(at_s < run_s for at_s, _ in short.acts)
    assert all(0 < start <= end < run_s for start, end in short.bad)
    assert short.repeat_s or all(step["t"] < run_s for step in short.steps)
    assert scenario.squeezed(2 * LONG_S) is scenario


@pytest.mark.parametrize("policy", ["deadline", "near_only", "threshold", "far_only"])
@pytest.mark.parametrize("link", ["zmq", "grpc"])
def test_the_recipes_are_what_agents_and_workers_read(tmp_path: Path, policy: str, link: str) -> None:
    from cloud.config import WorkerConfig  # noqa: PLC0415
    from edge.config.pipeline import PipelineConfig  # noqa: PLC0415
    from pipelines.document import Document  # noqa: PLC0415

    text = pipeline_yaml(
        tmp_path,
        policy=policy,
        deadline_ms=75,
        fps=15,
        host="10.77.0.2",
        link=link,
        ladder=ladder_of("sketch", cache()),
        near_accuracy=0.79,
    )
    (tmp_path / "pipeline.yaml").write_text(text)
    (tmp_path / "worker.yaml").write_text(worker_yaml(tmp_path, link=link))
    pipeline = Document.read(tmp_path / "pipeline.yaml").validate(PipelineConfig)
    Document.read(tmp_path / "worker.yaml").validate(WorkerConfig)
    assert pipeline.deadline == 75_000
    assert pipeline.scheduler.policy == policy
    assert len(pipeline.scheduler.ladder) == 3


def test_a_wall_clock_of_its_own_is_only_for_the_scenario_that_sets_it(tmp_path: Path) -> None:
    assert wall_clock_for(chosen("steady")[0].acts, tmp_path) is None

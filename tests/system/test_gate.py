"""The motion gate in a whole agent: what a still scene costs, and that what passes is answered as ever."""

from collections import Counter
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from pipelines.codecs.jpeg import JpegCodec
from pipelines.detectors.synthetic import SyntheticDetector
from pipelines.result import GapReason
from tests.support.gateway import Gateway, gateway

FPS, SECONDS = 20, 20
WALK = range(160, 176)  # frames in which somebody walks through the yard
PIPELINE = """\
streams:
  yard:
    source: {{kind: file, path: %s, pace: as_fast_as_possible, frames: every}}
    %s
links: {{memory: {{url: "zmq://127.0.0.1:1"}}}}
scheduler: {{policy: far_only}}
"""


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 s of a yard with sensor noise, in which somebody walks for 0.8 s."""
    path = tmp_path_factory.mktemp("clip") / "yard.avi"
    dice = np.random.default_rng(7)
    blocks = dice.integers(60, 160, (30, 40, 3)).repeat(8, 0).repeat(8, 1)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), FPS, (320, 240))
    for i in range(FPS * SECONDS):
        picture = blocks.copy()
        if i in WALK:
            left = 18 * (i - WALK.start)
            picture[90:160, left : left + 30] = (20, 30, 240)
        noisy = picture + dice.normal(0, 3, picture.shape)
        writer.write(np.asarray(np.clip(noisy, 0, 255), np.uint8))
    writer.release()
    return path


def watched(root: Path, clip: Path, gate: str) -> tuple[Gateway, dict[str, Any]]:
    """The clip through an agent with this gate, its far answers by a detector that looks at the pixels."""
    with gateway(
        root,
        PIPELINE % (clip, gate),
        build=lambda: SyntheticDetector(delay_us=1_000, boxes=2),
        codecs={"jpeg": JpegCodec()},
    ) as made:
        return made, made.run()


def answers(made: Gateway) -> dict[int, Any]:
    return {line["seq"]: line["detections"] for line in made.lines() if line["outcome"] == "answered"}


@pytest.fixture(scope="module")
def always(yard: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Gateway, dict[str, Any]]:
    return watched(tmp_path_factory.mktemp("always") / "house", yard, "priority: normal")


@pytest.fixture(scope="module")
def gated(yard: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Gateway, dict[str, Any]]:
    return watched(
        tmp_path_factory.mktemp("gated") / "house", yard, "gate: {{kind: motion, at_least_every: 2s}}"
    )


def test_a_nearly_still_scene_costs_at_most_a_tenth_of_the_bytes_of_always_sending(always, gated):
    sent = [summary["far"]["payload_bytes"] for _, summary in (always, gated)]
    assert always[1]["far"]["offloaded"] == FPS * SECONDS
    assert sent[1] <= 0.10 * sent[0]


def test_frames_that_pass_are_answered_with_the_same_boxes_as_without_a_gate(always, gated):
    free, kept = answers(always[0]), answers(gated[0])
    assert len(kept) > len(WALK) + SECONDS / 4
    assert all(kept[seq] == free[seq] is not None for seq in kept)


def test_every_frame_of_the_walk_passes_and_else_one_in_two_seconds(gated):
    outcomes = {line["seq"] - 1: line["outcome"] for line in gated[0].lines()}
    passed = {i for i, outcome in outcomes.items() if outcome == "answered"}
    assert set(WALK) <= passed
    assert len(passed - set(WALK)) <= SECONDS / 2 + 3


def test_a_gated_frame_has_a_line_with_the_reason_and_is_in_the_sums_and_out_of_the_on_time_figures(gated):
    made, summary = gated
    lines = [line for line in made.lines() if line["outcome"] == "gated"]
    frames = summary["frames"]
    assert len(lines) == frames["gated"] > 300
    assert {line["reason"] for line in lines} == {"still"}
    assert summary["gated"] == {"still": frames["gated"]}
    assert all(line["detections"] is None and line["answered_by"] is None for line in lines)
    assert frames["captured"] == frames["gated"] + frames["near"] + frames["far"] + frames["missed"]
    # Pull-driven: nothing is paced, and no gated frame is taken for late.
    assert summary["on_time"]["of"] == 0


def test_the_cloud_is_told_which_frames_were_gated(tmp_path: Path, yard: Path):
    with gateway(
        tmp_path / "house",
        PIPELINE % (yard, "gate: {{kind: motion}}"),
        build=lambda: SyntheticDetector(delay_us=1_000),
        codecs={"jpeg": JpegCodec()},
    ) as made:
        made.run()
        told = {
            seq
            for _, gap in made.store.gaps()
            if gap.reason is GapReason.GATED and gap.detail == "still"
            for seq in range(gap.first, gap.last + 1)
        }
        outcomes = {line["seq"]: line["outcome"] for line in made.lines()}
    assert told == {seq for seq, outcome in outcomes.items() if outcome == "gated"}


@pytest.mark.alone
def test_a_rate_bound_keeps_near_at_its_pace_on_a_fast_camera(tmp_path: Path):
    pipeline = """\
streams:
  cam:
    source: {{kind: synthetic, size: 320x240, fps: 60, count: 120}}
    gate: {{kind: motion, at_most_every: 100ms}}
near:
  detector: {{kind: synthetic, delay: 5ms, labels: [thing]}}
scheduler: {{policy: near_only}}
"""
    with gateway(tmp_path / "house", pipeline, build=SyntheticDetector, codecs={"jpeg": JpegCodec()}) as made:
        summary = made.run()
        lines = made.lines()
        why = Counter(line["reason"] for line in lines if line["outcome"] == "gated")
    answered = summary["frames"]["near"]
    took_ms = lines[-1]["captured_unix_ms"] - lines[0]["captured_unix_ms"]
    assert 0.6 * took_ms / 100 <= answered <= took_ms / 100 + 2
    assert set(why) <= {"rate", "still"}
    assert summary["frames"]["shed"] == {}
    assert summary["on_time"]["of"] == answered

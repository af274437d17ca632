"""A whole agent with several rungs: what was sent is what its lines say, and what far is asked about."""

from pathlib import Path
from typing import Any

import numpy as np

from pipelines.codecs.base import Codec
from pipelines.codecs.jpeg import JpegCodec
from pipelines.codecs.zstd import ZstdCodec
from pipelines.detectors.base import CancelToken
from pipelines.frame import Picture
from pipelines.result import Detections
from tests.support.gateway import Gateway, gateway

CODECS: dict[str, Codec] = {"jpeg": JpegCodec(), "zstd": ZstdCodec()}
PIPELINE = """\
streams:
  door: {{source: {{kind: synthetic, size: 320x240, fps: 40, count: 60}}}}
near:
  detector: {{kind: synthetic, delay: 5ms, labels: [thing]NEAR}}
  accuracy: 0.4
scheduler:
  policy: POLICY
  byte_price: PRICE
  ladder:
    - {{codec: jpeg, quality: 30, scale: 0.5, accuracy: 0.7}}
    - {{codec: zstd, level: 3, scale: 1.0, accuracy: 1.0}}
"""


class Eye:
    name, labels, input_size, sha256 = "eye@320x240", ("thing",), (320, 240), "ab" * 32

    def detect(self, _picture: Picture, _cancel: CancelToken | None = None) -> Detections:
        return Detections(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.uint16))


def run(
    root: Path, *, price: float, policy: str = "deadline", near: str = ""
) -> tuple[Gateway, dict[str, Any], list[dict[str, Any]]]:
    text = PIPELINE.replace("POLICY", policy).replace("PRICE", str(price)).replace("NEAR", near)
    with gateway(root, text, build=Eye, codecs=CODECS) as made:
        summary = made.run()
        return made, summary, made.lines()


def settled(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How the far answers of the second half were sent, once the link had been measured."""
    return [line["encoding"] for line in lines[30:] if line["answered_by"] == "far"]


def test_where_bytes_cost_nothing_frames_go_at_the_best_rung_and_their_lines_say_so(tmp_path: Path) -> None:
    _, summary, lines = run(tmp_path / "house", price=0)
    sent = settled(lines)
    assert len(sent) >= 15
    best = [e for e in sent if (e["codec"], e["quality"], e["width"], e["height"]) == ("zstd", 0, 320, 240)]
    assert len(best) >= len(sent) - 3
    assert summary["frames"]["missed"] == 0


def test_where_bytes_are_dear_frames_go_at_the_small_rung_and_their_lines_say_so(tmp_path: Path) -> None:
    _, summary, lines = run(tmp_path / "house", price=0.02)
    sent = settled(lines)
    assert len(sent) >= 15
    assert {(e["codec"], e["quality"], e["width"], e["height"]) for e in sent} == {("jpeg", 30, 160, 120)}
    assert summary["far"]["payload_bytes"] == sum(
        line["encoding"]["bytes"] for line in lines if line["encoding"] is not None
    )


def test_far_is_asked_after_near_about_what_near_was_unsure_of(tmp_path: Path) -> None:
    _, summary, lines = run(tmp_path / "house", price=0, policy="confidence", near=", boxes: 0")
    assert summary["near"]["runs"] >= 30, "near looks at every frame first"
    assert len(settled(lines)) >= 15, "near saw nothing, which is sure of nothing"


def test_far_is_not_asked_about_what_near_is_sure_of(tmp_path: Path) -> None:
    _, _, lines = run(tmp_path / "house", price=0, policy="confidence")
    far = [line for line in lines if line["answered_by"] == "far"]
    assert len(far) <= len(lines) // 5, "but for a sample now and then, by which the link is known"

"""Every word of a pipeline about its outbox, what goes up and its cameras reaches the part that it is about."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import edge.archive.assembly
import edge.assembly
import edge.capture.streams
from edge.agent import Agent
from edge.config.pipeline import load_pipeline
from edge.config.uplink import UplinkRuleConfig
from edge.outbox.bounds import Bounds
from edge.scheduling.priority_rule import PriorityRule
from pipelines.errors import Fatal
from pipelines.result import AnsweredBy, Priority

PIPELINE = """\
version: 1
agent: gateway
state_dir: gateway
deadline: 120ms
streams:
  gate:
    source: {kind: camera, url: "rtsp://127.0.0.1:9/x", open_timeout: 7s, stall_after: 3s, max_stale: 45ms, size: 64x48, fps: 9}
  yard:
    source: {kind: camera, url: "rtsp://127.0.0.1:9/y"}
near: {detector: {kind: synthetic, delay: 1ms}}
outbox: {max_bytes: 64MiB, max_age: 5h, durability: power, on_full: evict, keep: {before: 3s, after: 1500ms}}
uplink:
  archive: {codec: jpeg, quality: 71}
  rules:
    - when: {label: thing, score_above: 0.2, score_below: 0.6, count_at_least: 2, region: [0, 0, 0.5, 1], answered_by: [near]}
      every: 4
      send: [result, payload]
      priority: high
    - {send: [result]}
"""


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """What each part was made of, by the name of the part."""
    seen: dict[str, list[Any]] = {}

    def watched(module: Any, name: str) -> None:
        made: Callable[..., Any] = getattr(module, name)

        def make(*given: Any, **values: Any) -> Any:
            seen.setdefault(name, []).append((given, values))
            return made(*given, **values)

        monkeypatch.setattr(module, name, make)

    def dispatcher(**_: Any) -> None:
        raise Fatal("all is told")

    watched(edge.assembly, "SqliteOutbox")
    watched(edge.capture.streams, "Patience")
    watched(edge.archive.assembly, "Archivist")
    monkeypatch.setattr(edge.assembly, "Dispatcher", dispatcher)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    with pytest.raises(Fatal, match="all is told"):
        Agent(load_pipeline(tmp_path / "pipeline.yaml"), run_dir=None)
    return seen


@dataclass(frozen=True)
class Picture:
    bytes: int = 1


def test_bounds_and_durability_reach_the_outbox(told: dict[str, list[Any]]) -> None:
    ((_, values),) = told["SqliteOutbox"]
    assert values["durability"] == "power"
    assert values["bounds"] == Bounds(max_bytes=64 << 20, max_age_us=5 * 3_600_000_000, coarsen=False)


def test_what_is_kept_around_an_event_and_how_reaches_the_archive(told: dict[str, list[Any]]) -> None:
    ((_, values),) = told["Archivist"]
    ring, early, late = values["ring"], Picture(), Picture()
    ring.add("gate", 0, early)
    ring.add("gate", 1, late)
    assert ring.event("gate", 3_000_001) == [late], "3 s before it"
    assert ring.add("gate", 4_500_001, Picture())
    assert not ring.add("gate", 4_500_002, Picture()), "1.5 s after it"
    assert values["quality"] == 71
    assert values["codec"].name == "jpeg"


def test_a_rule_of_the_uplink_is_what_the_file_says() -> None:
    rule = edge.archive.assembly.rule_of(
        UplinkRuleConfig.model_validate(
            {
                "when": {
                    "label": "thing",
                    "score_above": 0.2,
                    "score_below": 0.6,
                    "count_at_least": 2,
                    "region": [0, 0, 0.5, 1],
                    "answered_by": ["near"],
                },
                "every": 4,
                "send": ["result", "payload"],
                "priority": "high",
            }
        )
    )
    assert rule.seen == PriorityRule(
        priority=Priority.NORMAL,
        label="thing",
        score_above=0.2,
        score_below=0.6,
        count=2,
        region=(0.0, 0.0, 0.5, 1.0),
    )
    assert rule.answered_by == frozenset({AnsweredBy.NEAR})
    assert (rule.every, rule.payload, rule.priority) == (4, True, Priority.HIGH)


def test_the_patience_with_a_camera_is_the_files_and_pictures_are_stale_at_half_the_deadline_unless_it_says(
    told: dict[str, list[Any]],
) -> None:
    gate, yard = (values for _, values in told["Patience"])
    assert gate == {"open_us": 7_000_000, "stall_us": 3_000_000, "max_stale_us": 45_000}
    assert yard["max_stale_us"] == 60_000

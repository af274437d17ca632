"""Which pictures rules want, which lie around an event, and what is refused or warned of: nothing runs."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from edge.archive.archivist import Archivist
from edge.archive.assembly import build_archivist, rule_of
from edge.archive.ring import AroundRing
from edge.archive.rules import Verdict
from edge.config.pipeline import load_pipeline
from edge.config.uplink import UplinkConfig
from edge.config.warnings import warnings
from pipelines.errors import ConfigError
from pipelines.result import AnsweredBy, Priority
from tests.support.uplinks import BOTH, SECOND, SIZE, answer, rules


def test_the_first_rule_that_matches_counts() -> None:
    judged = rules(
        {"when": {"label": "person", "score_below": 0.6}, "send": BOTH, "priority": "high"},
        {"when": {"label": "person"}, "send": ["result"], "priority": "low"},
        {"send": BOTH},
    )
    assert judged.judge(answer(1, ("person", 0.5)), SIZE) == Verdict(
        payload=True, event=True, priority=Priority.HIGH
    )
    assert judged.judge(answer(2, ("person", 0.9)), SIZE) == Verdict(priority=Priority.LOW)
    assert judged.judge(answer(3, ("car", 0.9)), SIZE) == Verdict(payload=True)


def test_every_takes_the_first_of_so_many_that_match_by_stream() -> None:
    judged = rules({"when": {"label": "car"}, "every": 3, "send": BOTH}, {"send": ["result"]})
    taken = [judged.judge(answer(n, ("car", 0.9)), SIZE).payload for n in range(7)]
    assert taken == [True, False, False, True, False, False, True]
    assert judged.judge(answer(1, ("car", 0.9), stream="yard"), SIZE).payload
    assert not judged.judge(answer(8, ("person", 0.9)), SIZE).payload


def test_a_sample_is_no_event() -> None:
    assert not rules({"every": 2, "send": BOTH}).judge(answer(1), SIZE).event


def test_who_answered_can_be_asked_for_alone_and_with_what_was_seen() -> None:
    judged = rules(
        {"when": {"answered_by": ["missed"]}, "send": BOTH, "priority": "low"},
        {"when": {"answered_by": ["tracked"], "label": "car"}, "send": BOTH},
    )
    assert judged.judge(answer(1, by=AnsweredBy.MISSED), SIZE).payload
    assert not judged.judge(answer(2, ("car", 0.9)), SIZE).payload
    assert judged.judge(answer(3, ("car", 0.9), by=AnsweredBy.TRACKED), SIZE).payload
    assert not judged.judge(answer(4, by=AnsweredBy.TRACKED), SIZE).payload


def test_a_region_is_a_share_of_the_picture() -> None:
    judged = rules({"when": {"region": [0, 0, 0.5, 0.5]}, "send": BOTH})
    assert judged.judge(answer(1, ("car", 0.9)), SIZE).payload
    assert not judged.judge(answer(1, ("car", 0.9)), (20, 20)).payload


def test_rules_that_send_no_picture_and_rank_nothing_need_no_archivist() -> None:
    def built(**uplink: object) -> Archivist | None:
        config = UplinkConfig.model_validate(uplink)
        return build_archivist(config, None, keep=lambda _: None, clock_us=lambda: 0)

    assert built() is None
    assert built(rules=[{"send": ["result"], "priority": "low"}]) is not None


# -- ring -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Held:
    name: int
    bytes: int = 10


def ring(max_bytes: int = 1000) -> AroundRing[Held]:
    return AroundRing(before_us=2 * SECOND, after_us=SECOND, max_bytes=max_bytes)


def test_an_event_gets_what_was_just_before_it_and_what_comes_just_after() -> None:
    kept = ring()
    assert not any(kept.add("door", n * SECOND, Held(n)) for n in range(6))
    assert [h.name for h in kept.event("door", 5 * SECOND)] == [3, 4, 5]
    assert kept.add("door", 6 * SECOND, Held(6))
    assert not kept.add("door", 7 * SECOND, Held(7))


def test_a_frame_that_was_answered_late_still_lies_near_its_event() -> None:
    kept = ring()
    kept.event("door", 5 * SECOND)
    assert kept.add("door", 4 * SECOND, Held(4))
    assert not kept.add("door", 2 * SECOND, Held(2))


def test_events_of_one_stream_are_none_of_another() -> None:
    kept = ring()
    kept.add("yard", 5 * SECOND, Held(5))
    assert kept.event("door", 5 * SECOND) == []
    assert not kept.add("yard", 5 * SECOND, Held(6))


def test_nothing_is_given_out_twice() -> None:
    kept = ring()
    kept.add("door", SECOND, Held(1))
    assert len(kept.event("door", SECOND)) == 1
    assert kept.event("door", SECOND) == []


def test_the_ring_is_bounded_by_bytes_and_says_what_it_had_no_room_for() -> None:
    kept = ring(max_bytes=25)
    for n in range(5):
        kept.add(f"s{n % 2}", n * 1000, Held(n))
    assert kept.crowded == 3
    assert [h.name for s in ("s0", "s1") for h in kept.event(s, 5000)] == [4, 3]


# -- configuration ----------------------------------------------------------------------------------------

PIPELINE = """\
version: 1
labels: [car, person]
streams: {door: {source: {kind: synthetic}}}
near: {detector: {kind: synthetic, labels: [car, person]}}
"""


def test_a_label_no_answer_shows_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(PIPELINE + "uplink: {rules: [{when: {label: persn}, send: [result, payload]}]}\n")
    with pytest.raises(ConfigError, match=r"persn is none of `labels`.*did you mean person"):
        load_pipeline(path)


@pytest.mark.parametrize(
    ("uplink", "words"),
    [
        ("{rules: [{send: [result, payload]}]}", "there is no link: they fill the outbox"),
        ("{archive: {quality: 70}}", "no rule of uplink.rules sends one"),
    ],
)
def test_what_is_probably_not_meant_is_said(tmp_path: Path, uplink: str, words: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(PIPELINE + f"uplink: {uplink}\n")
    assert any(words in sentence for sentence in warnings(load_pipeline(path)))


def test_the_sketch_of_the_uplink_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        PIPELINE
        + """\
outbox: {on_full: coarsen, keep: {before: 2s, after: 2s}}
uplink:
  archive: {codec: jpeg, quality: 90}
  rules:
    - {when: {label: person, score_below: 0.6}, send: [result, payload], priority: high}
    - {every: 300, send: [result, payload], priority: low}
    - {send: [result]}
"""
    )
    config = load_pipeline(path)
    first, second, _ = map(rule_of, config.uplink.rules)
    assert first.seen is not None
    assert (first.seen.label, first.seen.score_below, first.payload) == ("person", 0.6, True)
    assert (second.every, second.priority) == (300, Priority.LOW)

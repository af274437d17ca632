"""The demo's verdict: what was promised, what was seen, and one honest paragraph."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from nearfar.demo.phases import GRACE_AFTER_HEAL_S, Moment

Line = Mapping[str, Any]
Identity = tuple[str, str, int]
"""(run as hex, stream, seq)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One promise: what is wanted, what was got, and whether it held."""

    promise: str
    want: str
    got: str
    held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the run left behind. `lines`: frames.jsonl; `records`: identities in the record store;
    `clip_frames`: length of the looped clip, for comparing both models on the same picture."""

    lines: Sequence[Line]
    moments: Sequence[Moment]
    records: frozenset[Identity]
    duplicates: int
    summary: Mapping[str, Any]
    clip_frames: int


def identity(line: Line) -> Identity:
    return str(line["run"]), str(line["stream"]), int(line["seq"])


def checks(evidence: Evidence) -> list[Check]:
    """Every promise of the demo against the evidence."""
    lines = evidence.lines
    answered = [line for line in lines if line["outcome"] == "answered"]
    found = [_share("on time", 0.99, sum(bool(x["on_time"]) for x in answered), len(lines))]
    for moment in evidence.moments:
        inside = [
            x for x in answered if moment.judged_from_s <= x["captured_unix_ms"] / 1000 < moment.end_s - 0.1
        ]
        by = Counter(str(x["answered_by"]) for x in inside)
        if moment.phase.good:
            found.append(_share(f"far while {moment.phase.name}", 0.8, by["far"], len(inside)))
        else:
            found.append(_share(f"near during {moment.phase.name}", 0.95, by["near"], len(inside)))
    found += [
        _comes_back(m, answered)
        for before, m in _pairs(evidence.moments)
        if m.phase.good and not before.phase.good
    ]
    shed = sum(line["outcome"] == "shed" for line in lines)
    found.append(
        Check(
            promise="shed",
            want="≤ 1 %",
            got=f"{_percent(shed, len(lines))} %",
            held=shed <= 0.01 * len(lines),
        )
    )
    answers = {identity(line) for line in answered}
    lost, extra = answers - evidence.records, evidence.records - answers
    found.append(
        Check(
            promise="records in the cloud = answers given",
            want=f"{len(answers)}, none lost, none twice",
            got=f"{len(evidence.records)}, {len(lost)} lost, {len(extra)} without an answer, "
            f"{evidence.duplicates} twice",
            held=not lost and not extra and not evidence.duplicates,
        )
    )
    frames = evidence.summary["frames"]
    found.append(
        Check(
            promise="no frame uncounted",
            want=f"{frames['captured']} lines",
            got=f"{len(lines)} lines, {frames['pending']} pending",
            held=bool(frames["adds_up"]) and len(lines) == frames["captured"],
        )
    )
    return found


def paragraph(evidence: Evidence) -> str:
    """What happened, in one paragraph without adjectives."""
    lines = evidence.lines
    answered = [line for line in lines if line["outcome"] == "answered"]
    by = Counter(str(line["answered_by"]) for line in answered)
    shed = sum(line["outcome"] == "shed" for line in lines)
    on_time = sum(bool(line["on_time"]) for line in answered)
    outbox = evidence.summary["outbox"]
    lost = len({identity(line) for line in answered} - evidence.records)
    sent = int(evidence.summary["far"]["payload_bytes"])
    offloaded = int(evidence.summary["far"]["offloaded"])
    everything = sent / offloaded * len(lines) if offloaded else 0.0
    saw = _saw(answered, evidence.clip_frames)
    return (
        f"Of {len(lines)} frames, {on_time} ({_percent(on_time, len(lines))} %) were answered by their deadline of "
        f"{evidence.summary['deadline_ms']:.0f} ms: {by['far']} far, {by['near']} near, {by['missed']} missed, "
        f"{shed} shed. {outbox['committed']} answers were kept on the gateway, {outbox['acked']} of them backfilled, "
        f"{outbox['pending']} still wait; {lost} were lost, and the cloud holds {len(evidence.records)} records. "
        f"Pictures cost {sent / 1e6:.1f} MB up; sending every frame the same way would have cost "
        f"{everything / 1e6:.1f} MB. {saw}"
    )


def _saw(answered: Sequence[Line], clip_frames: int) -> str:
    """What far saw that near did not, on pictures that both answered in different turns of the clip."""
    faces: dict[str, dict[int, int]] = {"near": defaultdict(int), "far": defaultdict(int)}
    for line in answered:
        by = str(line["answered_by"])
        if by in faces and line["detections"] is not None:
            picture = (int(line["seq"]) - 1) % clip_frames
            faces[by][picture] = max(faces[by][picture], len(line["detections"]))
    both = faces["near"].keys() & faces["far"].keys()
    near = sum(faces["near"][p] for p in both)
    far = sum(faces["far"][p] for p in both)
    only_far = sum(1 for p in both if faces["far"][p] > faces["near"][p])
    only_near = sum(1 for p in both if faces["near"][p] > faces["far"][p])
    return (
        f"On the {len(both)} pictures of the clip that both models answered, far saw {far} faces and near {near}; "
        f"far saw more on {only_far} of them, near on {only_near}."
    )


def _comes_back(moment: Moment, answered: Sequence[Line]) -> Check:
    """The first far answer released after the link healed."""
    released = [
        (x["captured_unix_ms"] + x["latency_ms"]) / 1000
        for x in answered
        if x["answered_by"] == "far" and x["on_time"]
    ]
    after = [t - moment.start_s for t in released if moment.holds(t)]
    got = min(after, default=None)
    return Check(
        promise=f"far again after the link is {moment.phase.name}",
        want=f"≤ {GRACE_AFTER_HEAL_S} s",
        got="never" if got is None else f"{got:.2f} s",
        held=got is not None and got <= GRACE_AFTER_HEAL_S,
    )


def _share(promise: str, want: float, part: int, whole: int) -> Check:
    return Check(
        promise=promise,
        want=f"≥ {want:.0%}".replace("%", " %"),
        got=f"{_percent(part, whole)} % ({part} of {whole})",
        held=whole > 0 and part >= want * whole,
    )


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}" if whole else "–"


def _pairs(moments: Sequence[Moment]) -> list[tuple[Moment, Moment]]:
    return list(pairwise(moments))

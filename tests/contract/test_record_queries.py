"""What somebody may ask of a record store, on every database, by the command people type."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from cloud.store.payload_folder import PayloadFolder
from cloud.store.payloads import Payload, Payloads
from cloud.store.records import RecordStore, open_store
from nearfar.cli import main as command_line
from pipelines.codecs.jpeg import JpegCodec
from pipelines.codecs.zstd import ZstdCodec
from pipelines.frame import FrameId
from pipelines.result import AnsweredBy, Detections, Gap, GapReason, Priority, Record, Status
from tests.support.stores import NewUrl

RUN, OTHER_RUN = bytes(range(16)), bytes(16)
NOON_UNIX_US = 1_764_504_000_000_000  # 2025-11-30 12:00 UTC
SECOND = 1_000_000
LABELS = ("person", "face")
BOX = (64.0, 48.0, 128.0, 96.0)


def boxes(*found: tuple[str, float]) -> Detections:
    """Each at the same place."""
    return Detections(
        np.array([BOX] * len(found), np.float32).reshape(-1, 4),
        np.array([score for _, score in found], np.float32),
        np.array([LABELS.index(label) for label, _ in found], np.uint16),
        LABELS,
    )


def record(
    seq: int,
    by: AnsweredBy,
    detections: Detections | None,
    *,
    agent: str = "gw",
    run: bytes = RUN,
    stream: str = "door",
    priority: Priority = Priority.NORMAL,
    captured_unix_us: int | None = None,
) -> Record:
    return Record(
        id=FrameId(agent, run, stream, seq),
        answered_by=by,
        status=Status.TIMEOUT if by is AnsweredBy.MISSED else Status.OK,
        on_time=by is not AnsweredBy.MISSED,
        latency_us=40_000,
        captured_unix_us=NOON_UNIX_US + seq * SECOND if captured_unix_us is None else captured_unix_us,
        detections=detections,
        priority=priority,
        model="m",
        model_sha256="ab" * 32,
    )


@pytest.fixture
def url(new_url: NewUrl) -> str:
    return new_url()


@pytest.fixture
def store(url: str) -> Iterator[RecordStore]:
    with open_store(url) as opened:
        opened.commit(
            now_unix_us=NOON_UNIX_US + 3600 * SECOND,
            given=[
                record(1, AnsweredBy.NEAR, boxes(("person", 0.9))),
                record(2, AnsweredBy.FAR, boxes(("face", 0.4))),
                record(3, AnsweredBy.MISSED, None),
                record(4, AnsweredBy.NEAR, boxes(("person", 0.8)), stream="yard"),
                record(5, AnsweredBy.NEAR, boxes(), agent="other"),
                record(6, AnsweredBy.TRACKED, boxes(("person", 0.7)), run=OTHER_RUN),
            ],
            far=[record(4, AnsweredBy.FAR, boxes(("person", 0.85), ("face", 0.6)), stream="yard")],
            gaps=[
                ("gw", Gap(run=RUN, stream="door", first=7, last=9, reason=GapReason.GATED, detail="still")),
                ("other", Gap(run=RUN, stream="door", first=1, last=4, reason=GapReason.SHED)),
            ],
        )
        yield opened


Ask = Callable[..., str]


@pytest.fixture
def ask(store: RecordStore, url: str, capsys: pytest.CaptureFixture[str]) -> Ask:
    def run(*options: str, code: int = 0) -> str:
        """What the command printed: its answer, or its complaint."""
        assert command_line.run(["records", "--store", url, *options]) == code
        told = capsys.readouterr()
        return told.err if code else told.out

    return run


ASKED = {
    (): [1, 2, 3, 4, 5, 6],
    ("--agent", "other"): [5],
    ("--stream", "yard"): [4],
    ("--run", "0001"): [1, 2, 3, 4, 5],
    ("--run", "000102030405060708090A"): [1, 2, 3, 4, 5],
    ("--run", "0"): [1, 2, 3, 4, 5, 6],
    ("--run", "%"): [],
    ("--by", "near"): [1, 4, 5],
    ("--by", "missed"): [3],
    ("--since", "2025-11-30T12:00:04Z"): [4, 5, 6],
    ("--until", "2025-11-30T12:00:04+00:00"): [1, 2, 3],
    ("--since", "2025-11-30T12:00:02Z", "--until", "2025-11-30T12:00:03Z"): [2],
    ("--since", "1s"): [],
    ("--label", "person"): [1, 4, 6],
    ("--label", "cat"): [],
    ("--score-above", "0.75"): [1, 4],
    ("--score-below", "0.65"): [2, 4],
    ("--label", "person", "--score-below", "0.75"): [6],
    ("--label", "face", "--score-above", "0.5", "--score-below", "0.7"): [4],
    ("--disagree",): [4],
    ("--by", "near", "--stream", "door"): [1, 5],
    ("--by", "near", "--limit", "2"): [1, 4],
}


def test_records_are_found_by_what_is_asked(ask: Ask) -> None:
    def found(options: tuple[str, ...]) -> list[int]:
        return sorted(json.loads(line)["seq"] for line in ask("--format", "jsonl", *options).splitlines())

    assert {options: found(options) for options in ASKED} == ASKED


def test_a_frame_whose_gateway_did_not_know_the_time_is_found_by_its_arrival(
    ask: Ask, store: RecordStore
) -> None:
    store.commit(given=[record(9, AnsweredBy.NEAR, None, captured_unix_us=0)], now_unix_us=NOON_UNIX_US)
    found = ask("--json", "--until", "2025-11-30T12:00:01Z")
    assert [json.loads(line)["seq"] for line in found.splitlines()] == [9]


def test_csv_has_a_line_per_record_and_tells_no_answer_from_no_objects(ask: Ask) -> None:
    lines = {int(line["seq"]): line for line in csv.DictReader(io.StringIO(ask("--format", "csv")))}
    assert len(lines) == 6
    assert (lines[4]["boxes"], lines[4]["labels"]) == ("2", "person:1 face:1")
    assert (lines[4]["highest_score"], lines[4]["lowest_score"]) == ("0.85", "0.6")
    assert (lines[3]["boxes"], lines[5]["boxes"]) == ("", "0")
    assert (lines[4]["answered_by"], lines[4]["late_far"]) == ("near", "True")


def test_the_table_says_whether_it_shows_all_that_match(ask: Ask) -> None:
    assert "6 records" in ask()
    assert "3 shown, all that match" in ask("--by", "near")
    assert "2 shown, the newest of those that match" in ask("--by", "near", "--limit", "2")
    assert "gaps: 2 (--gaps lists them)" in ask()


def test_the_gap_ledger_explains_missing_frames(ask: Ask) -> None:
    assert "7..9" in ask("--gaps")
    assert "gated" in ask("--gaps")
    assert "… and 1 more" in ask("--gaps", "--limit", "1")
    (line,) = ask("--gaps", "--agent", "gw", "--json").splitlines()
    assert json.loads(line) == {
        "agent": "gw",
        "run": RUN.hex(),
        "stream": "door",
        "first": 7,
        "last": 9,
        "reason": "gated",
        "detail": "still",
    }
    (heading, line) = ask("--gaps", "--agent", "other", "--format", "csv").splitlines()
    assert (heading, line) == (
        "agent,run,stream,first,last,reason,detail",
        f"other,{RUN.hex()},door,1,4,shed,",
    )
    assert ask("--gaps", "--since", "1s", "--json") == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--gaps", "--by", "near"], "gaps have no answers"),
        (["--gaps", "--hard", "x"], "two questions"),
        (["--payloads", "x"], "goes with --hard"),
        (["--since", "yesterday"], "must be a moment like 2026-11-30"),
        (["--hard", "x"], "no worker of this store keeps pictures"),
        (["--hard", "x", "--payloads", "/nowhere"], "there is no payload folder at /nowhere"),
    ],
)
def test_a_question_that_makes_no_sense_is_told_and_exits_2(ask: Ask, options: list[str], words: str) -> None:
    assert words in ask(*options, code=2)


def test_reading_goes_on_while_workers_write(store: RecordStore, url: str) -> None:
    with open_store(url, read_only=True) as reader:
        reading = reader.rows()
        next(reading)
        store.commit(given=[record(7, AnsweredBy.NEAR, None)], now_unix_us=NOON_UNIX_US)
        assert len(list(reading)) == 5
        assert len(list(reader.rows())) == 7


# -- hard examples ------------------------------------------------------------------------------------------------


@pytest.fixture
def pictures(store: RecordStore, tmp_path: Path) -> Payloads:
    """A picture for each record but the fifth, half the size of its frame, each of another gray."""
    payloads = Payloads(store, PayloadFolder(tmp_path / "payloads"), max_bytes=1 << 30)
    store.note_payloads(payloads.folder.root)
    for row in list(store.rows()):
        if row.id.seq == 5:
            continue
        gray = np.full((480, 640, 3), 10 * row.id.seq, np.uint8)
        codec = ZstdCodec() if row.id.seq == 3 else JpegCodec()
        data, encoding = codec.encode(gray, quality=90, size=(320, 240))
        payloads.commit(
            [Payload(id=row.id, encoding=encoding, data=data, source_size=(640, 480))], now_unix_us=1
        )
    return payloads


def test_hard_examples_are_a_folder_of_pictures_with_the_answers_as_pre_labels(
    ask: Ask, pictures: Payloads, tmp_path: Path
) -> None:
    assert "3 pictures" in ask("--hard", str(tmp_path / "out"))
    document = json.loads((tmp_path / "out" / "annotations.json").read_text())
    by_seq = {image["nearfar"]["seq"]: image for image in document["images"]}
    assert {seq: image["nearfar"]["why"] for seq, image in by_seq.items()} == {
        2: ["unsure"],
        3: ["missed"],
        4: ["disagree", "late"],
    }
    for seq, image in by_seq.items():
        picture = cv2.imread(str(tmp_path / "out" / "images" / image["file_name"]))
        assert picture is not None
        assert picture.shape == (image["height"], image["width"], 3) == (240, 320, 3)
        assert abs(int(picture.mean()) - 10 * seq) <= 1
    names = {category["id"]: category["name"] for category in document["categories"]}
    assert set(names.values()) == set(LABELS)
    labels = [a for a in document["annotations"] if a["image_id"] == by_seq[4]["id"]]
    assert [(names[a["category_id"]], a["score"]) for a in labels] == [("person", 0.85), ("face", 0.6)]
    assert labels[0]["bbox"] == [32.0, 24.0, 32.0, 24.0]
    assert labels[0]["area"] == 768.0
    assert [a["id"] for a in document["annotations"]] == [1, 2, 3]
    assert not [a for a in document["annotations"] if a["image_id"] == by_seq[3]["id"]]


def test_hard_examples_are_chosen_by_conditions_limit_and_score(
    ask: Ask, pictures: Payloads, tmp_path: Path
) -> None:
    assert "1 pictures (disagree 1, late 1)" in ask("--hard", str(tmp_path / "a"), "--stream", "yard")
    assert "1 pictures" in ask("--hard", str(tmp_path / "b"), "--limit", "1")
    assert "unsure 4" in ask("--hard", str(tmp_path / "c"), "--unsure-below", "0.95")
    assert "0 pictures" in ask("--hard", str(tmp_path / "d"), "--label", "cat")
    assert (tmp_path / "d" / "annotations.json").is_file()


def test_a_missing_or_damaged_picture_is_told_and_left_out(
    store: RecordStore, pictures: Payloads, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refs = {row.id.seq: row.payload for row in store.rows() if row.payload is not None}
    pictures.folder.path(refs[2].sha256).write_bytes(b"damaged")
    pictures.folder.path(refs[3].sha256).unlink()
    assert command_line.run(["records", "--store", url, "--hard", str(tmp_path / "out")]) == 0
    told = capsys.readouterr()
    assert "1 pictures" in told.out
    assert "2 pictures could not be used" in told.err


def test_a_folder_with_something_in_it_is_never_written_to(
    ask: Ask, pictures: Payloads, tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "labels.txt").write_text("a day's work")
    assert "is there already" in ask("--hard", str(tmp_path / "full"), code=2)
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["labels.txt"]


def test_a_picture_larger_decoded_than_a_worker_takes_is_left_out(
    ask: Ask, pictures: Payloads, tmp_path: Path
) -> None:
    (ref,) = pictures.refs([FrameId("gw", RUN, "door", 3)])
    huge = replace(ref.encoding, width_px=50_000, height_px=50_000)
    pictures.settle([(FrameId("gw", RUN, "door", 7), replace(ref, encoding=huge))])
    missed = record(7, AnsweredBy.MISSED, None)
    pictures._store.commit(given=[missed], now_unix_us=NOON_UNIX_US)
    assert "0 pictures" in ask(
        "--hard", str(tmp_path / "out"), "--by", "missed", "--since", "2025-11-30T12:00:07Z"
    )


def test_a_disk_that_fills_up_while_examples_are_written_is_said_in_words(
    ask: Ask, pictures: Payloads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert "No space left on device" in ask("--hard", str(tmp_path / "out"), code=2)

"""What somebody may ask of a record store, on every database, by the command people type."""

import csv
import io
import json
from collections.abc import Iterator

import pytest

from cloud.store.records import RecordStore, open_store
from pipelines.result import AnsweredBy
from tests.support.asked_store import NOON_UNIX_US, RUN, Ask, asked_store, asking, record
from tests.support.stores import NewUrl


@pytest.fixture
def url(new_url: NewUrl) -> str:
    return new_url()


@pytest.fixture
def store(url: str) -> Iterator[RecordStore]:
    with asked_store(url) as made:
        yield made


@pytest.fixture
def ask(store: RecordStore, url: str, capsys: pytest.CaptureFixture[str]) -> Ask:
    return asking(url, capsys)


ASKED = {
    (): [1, 2, 3, 4, 5, 6],
    ("--agent", "other"): [5],
    ("--stream", "yard"): [4],
    ("--run", "0001"): [1, 2, 3, 4, 5],
    ("--run", "000102030405060708090A"): [1, 2, 3, 4, 5],
    ("--run", "0"): [1, 2, 3, 4, 5, 6],
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

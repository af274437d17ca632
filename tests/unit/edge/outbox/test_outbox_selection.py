"""`nearfar outbox ls | export | purge`: which records are meant, what is written, what is given up."""

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from edge.identity import StateDir
from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.memory import Held
from edge.outbox.store import Changes
from nearfar.cli.outbox import command
from nearfar.outbox.custody import NO_BOUNDS
from pipelines.errors import ConfigError
from pipelines.result import Gap, GapReason, Priority
from tests.support.outboxes import RUN, SECOND, payload, record

HOUR = 3600 * SECOND


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A gateway's state_dir, its agent stopped: three at the door, one in the yard, over three hours of uptime."""
    held = StateDir(tmp_path / "state")
    held.identity("gw-7")
    held.close()
    store = SqliteOutbox(held.path / "outbox.db")
    store.open(0)
    for at, item in enumerate(
        (
            record(1, priority=Priority.LOW),
            record(2, priority=Priority.HIGH),
            record(3),
            record(1, stream="yard"),
        )
    ):
        store.commit(Changes(entries=[Held(item, at * HOUR).entry(at * HOUR)]), at * HOUR)
    gaps = [
        Gap(run=RUN, stream=s, first=4, last=9, reason=GapReason.SHED, detail="overload")
        for s in ("door", "yard")
    ]
    store.commit(Changes(gaps=gaps), 3 * HOUR)
    store.close(3 * HOUR)
    return held.path


def run(*args: str, input_: str = "") -> Result:
    result = CliRunner().invoke(command, args, input=input_, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def listed(state: Path, *args: str) -> list[tuple[str, int]]:
    lines = [json.loads(line) for line in run("ls", str(state), "--json", *args).stdout.splitlines()]
    return [(line["stream"], line["seq"]) for line in lines if "seq" in line]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((), [("door", 2), ("door", 3), ("yard", 1), ("door", 1)]),
        (("--stream", "door"), [("door", 2), ("door", 3), ("door", 1)]),
        (("--priority", "low"), [("door", 1)]),
        (("--since", "90m"), [("door", 3), ("yard", 1)]),
        (("--before", "90m"), [("door", 2), ("door", 1)]),
        (("--before", "90m", "--priority", "high"), [("door", 2)]),
        (("--since", "2.5h", "--before", "30m"), [("door", 2), ("door", 3)]),
        (("--stream", "attic"), []),
    ],
)
def test_ls_shows_what_is_asked_for(
    state: Path, options: tuple[str, ...], found: list[tuple[str, int]]
) -> None:
    assert listed(state, *options) == found


def test_gaps_are_shown_of_their_stream_and_not_by_a_priority_they_have_not(state: Path) -> None:
    of_yard = [
        json.loads(line) for line in run("ls", str(state), "--json", "--stream", "yard").stdout.splitlines()
    ]
    assert [(line["stream"], line["gap"]) for line in of_yard if "gap" in line] == [("yard", "shed")]
    assert '"gap"' not in run("ls", str(state), "--json", "--priority", "normal").stdout


def test_ls_says_that_there_is_more(state: Path) -> None:
    assert "… and 2 more records" in run("ls", str(state), "--limit", "2").stdout


def test_an_export_is_whole_records_as_json_lines(state: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    result = run("export", str(state), "--out", str(out))
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(x["kind"], x["stream"], x.get("seq")) for x in lines] == [
        ("record", "door", 2),
        ("record", "door", 3),
        ("record", "yard", 1),
        ("record", "door", 1),
        ("gap", "door", None),
        ("gap", "yard", None),
    ]
    first = lines[0]
    assert (first["agent"], first["answered_by"], first["status"], first["priority"]) == (
        "gw-7",
        "near",
        "ok",
        "high",
    )
    assert (first["latency_ms"], first["age_ms"]) == (40.0, 2 * HOUR / 1000 + 40)
    assert first["detections"][0]["label"] == "thing"
    assert "4 records written" in result.stderr
    assert run("export", str(state), "--stream", "yard").stdout.count("\n") == 2


def test_an_export_overwrites_nothing_and_leaves_no_half_file(state: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("precious")
    with pytest.raises(ConfigError, match="exists; name a new file"):
        run("export", str(state), "--out", str(out))
    assert out.read_text() == "precious"
    with pytest.raises(ConfigError, match="no outbox at"):
        run("export", str(tmp_path), "--out", str(tmp_path / "new.jsonl"))
    assert not list(tmp_path.glob("new*"))


def test_an_export_says_what_it_could_not_read(state: Path) -> None:
    with closing(sqlite3.connect(state / "outbox.db")) as other, other:
        other.execute("UPDATE records SET data = x'ff' WHERE stream = 'yard'")
    result = CliRunner().invoke(command, ["export", str(state)], catch_exceptions=False)
    assert result.exit_code == 1
    assert "3 records written, 1 are damaged" in result.stderr


def test_looking_needs_no_stopped_agent_and_purging_does(state: Path) -> None:
    agent = StateDir(state)
    try:
        assert len(listed(state)) == 4
        for words in (["purge", str(state), "--yes"], ["drain", str(state), "--link", "zmq://127.0.0.1:1"]):
            with pytest.raises(ConfigError, match=r"an agent runs in .*; stop it to"):
                run(*words)
    finally:
        agent.close()


def test_a_purge_is_asked_for_counted_and_explained(state: Path) -> None:
    assert "nothing was purged" in run("purge", str(state), "--stream", "door", input_="n\n").stdout
    assert len(listed(state)) == 4
    result = run("purge", str(state), "--stream", "door", "--before", "90m", input_="y\n")
    assert "2 records purged" in result.stdout
    assert "Give up 2 records (what matches)? They will never reach the cloud." in result.stderr
    assert listed(state) == [("door", 3), ("yard", 1)]
    figures = json.loads(run("stat", str(state), "--json").stdout)
    assert (figures["evicted"]["purged"], figures["pending"], figures["adds_up"]) == (2, 2, True)
    gaps = [
        json.loads(line) for line in run("ls", str(state), "--json").stdout.splitlines() if '"gap"' in line
    ]
    assert {
        "run": RUN.hex(),
        "stream": "door",
        "gap": "evicted",
        "first": 1,
        "last": 2,
        "detail": "purged",
    } in gaps


def test_a_purge_of_everything_asks_no_question_with_yes_and_gives_the_space_back(state: Path) -> None:
    store = SqliteOutbox(state / "outbox.db")
    store.open(0)
    store.commit(Changes(entries=[Held(record(n, boxes=60), 0).entry(0) for n in range(10, 1000)]), 0)
    store.close(0)
    before = (state / "outbox.db").stat().st_size
    assert "994 records purged" in run("purge", str(state), "--yes").stdout
    assert (state / "outbox.db").stat().st_size < before / 5
    assert "nothing of that kind" in run("purge", str(state), "--yes").stdout
    figures = json.loads(run("stat", str(state), "--json").stdout)
    assert (figures["pending"], figures["evicted"]["purged"], figures["adds_up"]) == (0, 994, True)


def test_a_visitor_evicts_nothing_by_bounds_of_its_own(state: Path) -> None:
    store = SqliteOutbox(state / "outbox.db", bounds=NO_BOUNDS)
    store.open(0)
    store.close(24 * 365 * HOUR)
    run("purge", str(state), "--priority", "low", "--yes")
    figures = json.loads(run("stat", str(state), "--json").stdout)
    assert (figures["evicted"], figures["pending"]) == ({"age": 0, "bytes": 0, "purged": 1}, 3)


@pytest.fixture
def pictured(state: Path) -> Path:
    """With pictures of two frames that wait, and of one whose record the cloud has."""
    store = SqliteOutbox(state / "outbox.db")
    store.open(0)
    kept = [payload(2, priority=2), payload(3, size=3000), payload(77, priority=0)]
    store.commit(Changes(payloads=kept), 0)
    store.close(0)
    return state


def test_ls_shows_pictures_after_records_and_selects_them_alike(pictured: Path) -> None:
    lines = [json.loads(line) for line in run("ls", str(pictured), "--json").stdout.splitlines()]
    assert ["answered_by" in x for x in lines[:4]] == [True] * 4
    shown = [(x["seq"], x["picture"], x["priority"], x["hard"], x["bytes"]) for x in lines[4:7]]
    assert shown == [
        (2, "jpeg", "high", True, 1000),
        (3, "jpeg", "normal", False, 3000),
        (77, "jpeg", "low", False, 1000),
    ]
    assert (lines[4]["width_px"], lines[4]["height_px"]) == (64, 48)
    assert listed(pictured, "--priority", "high") == [("door", 2), ("door", 2)]
    assert listed(pictured, "--stream", "yard") == [("yard", 1)]
    assert "… and 1 more pictures" in run("ls", str(pictured), "--limit", "2").stdout


def test_stat_tells_the_law_of_the_pictures_when_there_were_any(
    state: Path, request: pytest.FixtureRequest
) -> None:
    assert "pictures" not in run("stat", str(state)).stdout
    pictured = request.getfixturevalue("pictured")
    assert (
        "pictures: committed 3 = acked 0 + pending 3 + evicted 0 (age) + 0 (bytes) + 0 (purged) + refused 0 + "
        "set aside 0; 5768 bytes" in run("stat", str(pictured)).stdout
    )
    figures = json.loads(run("stat", str(pictured), "--json").stdout)["payloads"]
    assert (figures["pending"], figures["adds_up"], figures["bytes"]) == (3, True, 5768)


def test_an_export_names_the_picture_that_waits_beside_a_record(pictured: Path) -> None:
    lines = [json.loads(line) for line in run("export", str(pictured)).stdout.splitlines()]
    of = {(x["stream"], x["seq"]): x["payload"] for x in lines if x["kind"] == "record"}
    assert of[("yard", 1)] is of[("door", 1)] is None
    assert of[("door", 3)] == {
        "sha256": hashlib.sha256(payload(3, size=3000).data).hexdigest(),
        "codec": "jpeg",
        "bytes": 3000,
        "width_px": 64,
        "height_px": 48,
    }


def test_purged_pictures_are_asked_for_and_counted(pictured: Path) -> None:
    result = run("purge", str(pictured), "--priority", "high", input_="y\n")
    assert "Give up 1 records and 1 pictures (what matches)?" in result.stderr
    assert "1 records and 1 pictures purged" in result.stdout
    assert (
        "1 pictures purged"
        in run(
            "purge", str(pictured), "--priority", "low", "--stream", "door", "--since", "1m", "--yes"
        ).stdout
    )
    assert "3 records and 1 pictures purged" in run("purge", str(pictured), "--yes").stdout
    figures = json.loads(run("stat", str(pictured), "--json").stdout)
    assert (figures["pending"], figures["adds_up"]) == (0, True)
    assert (figures["payloads"]["pending"], figures["payloads"]["adds_up"]) == (0, True)
    assert figures["payloads"]["evicted"] == {"age": 0, "bytes": 0, "purged": 3}


def test_a_wrong_age_is_answered_in_words(state: Path) -> None:
    result = CliRunner().invoke(command, ["ls", str(state), "--since", "yesterday"])
    assert result.exit_code == 2
    assert "must be a duration with its unit" in result.output

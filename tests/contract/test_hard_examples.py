"""Hard examples: pictures with the answers as pre-labels, on every database, and nothing of anybody's overwritten."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from cloud.store.payloads.folder import PayloadFolder
from cloud.store.payloads.store import Payload, Payloads
from cloud.store.records import RecordStore
from nearfar.cli import main as command_line
from pipelines.codecs.jpeg import JpegCodec
from pipelines.codecs.zstd import ZstdCodec
from pipelines.frame import FrameId
from pipelines.result import AnsweredBy
from tests.support.asked_store import LABELS, NOON_UNIX_US, RUN, Ask, asked_store, asking, record
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
    ask: Ask, pictures: Payloads, store: RecordStore, tmp_path: Path
) -> None:
    (ref,) = pictures.refs([FrameId("gw", RUN, "door", 3)])
    huge = replace(ref.encoding, width_px=50_000, height_px=50_000)
    pictures.settle([(FrameId("gw", RUN, "door", 7), replace(ref, encoding=huge))])
    missed = record(7, AnsweredBy.MISSED, None)
    store.commit(given=[missed], now_unix_us=NOON_UNIX_US)
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

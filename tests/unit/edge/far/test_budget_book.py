"""What a link may cost is not forgotten by a restart, and remembering it wears no flash."""

import json
from functools import partial
from pathlib import Path

import pytest

from edge.far.budget_book import EVERY_US, REFILLED_US, BudgetBook
from edge.scheduling.far.data_budget import HOUR_US, DataBudget
from pipelines.whole_file import write_whole
from tests.support.eventually import eventually

NOW_US = 5_000_000
HOUR_BYTES = 1_000_000
DAY_BYTES = 10_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data_budgets.json"


def limited(hour_bytes: int = HOUR_BYTES) -> DataBudget:
    return DataBudget(bytes_per_hour=hour_bytes, bytes_per_day=DAY_BYTES)


def rest_after_restart(path: Path, *, budget: DataBudget | None = None, now_us: int = 77) -> int | None:
    budget = budget or limited()
    book = BudgetBook(path, {"lte": budget}, now_us=now_us)
    book.close({}, now_us)
    return budget.rest_bytes(now_us)


def used(path: Path) -> int:
    return int(json.loads(path.read_text())["used_bytes"]["lte"][str(HOUR_US)]) if path.exists() else 0


def test_a_restart_fills_no_budget(path: Path) -> None:
    budget = limited()
    book = BudgetBook(path, {"lte": budget, "cable": DataBudget()}, now_us=NOW_US)
    budget.spend(900_000, NOW_US)
    book.close({}, NOW_US)
    assert rest_after_restart(path) == 100_000
    assert rest_after_restart(path, budget=limited(950_000)) == 50_000, "of a smaller budget as much is used"


def test_what_was_refilled_before_the_end_is_there_after_it(path: Path) -> None:
    budget = limited()
    book = BudgetBook(path, {"lte": budget}, now_us=NOW_US)
    budget.spend(900_000, NOW_US)
    book.close({}, NOW_US + HOUR_US // 2)
    assert rest_after_restart(path) == 600_000


def test_what_went_out_after_the_last_look_is_charged_too(path: Path) -> None:
    budget = limited()
    book = BudgetBook(path, {"lte": budget}, now_us=NOW_US)
    budget.spend(100_000, NOW_US)
    book.close({"lte": 300_000, "cable": 9}, NOW_US)
    assert rest_after_restart(path) == 700_000


def test_after_a_kill_no_more_is_forgotten_than_a_hundredth_and_ten_seconds(path: Path) -> None:
    budget = limited()
    book = BudgetBook(path, {"lte": budget}, now_us=NOW_US)
    budget.spend(9_000, NOW_US)
    book.look(NOW_US)
    budget.spend(2_000, NOW_US)
    book.look(NOW_US)
    eventually(lambda: used(path) == 11_000, what="the first word")
    budget.spend(100_000, NOW_US)
    book.look(NOW_US + EVERY_US - 1)
    book.look(NOW_US + EVERY_US)
    eventually(lambda: used(path) > 100_000, what="the second word")
    before = path.stat().st_mtime_ns
    for later_us in range(EVERY_US, REFILLED_US, EVERY_US):
        book.look(NOW_US + later_us)
    assert path.stat().st_mtime_ns == before, "nothing is written while nothing is used"
    book.look(NOW_US + EVERY_US + REFILLED_US)
    eventually(lambda: used(path) < 100_000, what="what was refilled")
    book.close({}, NOW_US + EVERY_US + REFILLED_US)


def test_links_without_a_budget_write_nothing(path: Path) -> None:
    budget = DataBudget()
    book = BudgetBook(path, {"cable": budget}, now_us=NOW_US)
    budget.spend(10**9, NOW_US)
    book.look(NOW_US)
    book.close({"cable": 10**10}, NOW_US)
    assert not path.exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"used_bytes": 3}', '{"used_bytes": {"lte": {"x": 1}}}', "\x00\x00"]
)
def test_a_damaged_file_is_said_and_the_budget_begins_full(
    path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_text(text)
    assert rest_after_restart(path) == HOUR_BYTES
    assert "begin full" in caplog.text
    assert rest_after_restart(path) == HOUR_BYTES
    assert len(caplog.records) == 1


def test_a_disk_that_takes_nothing_is_said_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[Path] = []

    def watched(path: Path, data: bytes, *, draft: Path) -> None:
        attempts.append(path)
        write_whole(path, data, draft=draft)

    monkeypatch.setattr("edge.far.budget_book.write_whole", watched)
    path = tmp_path / "away" / "data_budgets.json"
    budget = limited()
    book = BudgetBook(path, {"lte": budget}, now_us=NOW_US)
    for turn in range(3):
        budget.spend(100_000, NOW_US)
        book.look(NOW_US + turn * EVERY_US)
        eventually(partial(lambda count: len(attempts) == count, turn + 1), what="the attempt")
    eventually(lambda: caplog.records, what="the words")
    path.parent.mkdir()
    book.close({}, NOW_US + 3 * EVERY_US)
    assert used(path) > 280_000
    assert len(caplog.records) == 1

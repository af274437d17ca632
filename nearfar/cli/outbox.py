"""`nearfar outbox`: look into a gateway's outbox, also while its agent runs. Never changes the file."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from edge.outbox import schema
from edge.outbox.bounds import Ledger, Tally
from pipelines.errors import ConfigError, Rejected
from pipelines.result import PRIORITIES, Record
from protos.wire import records as wire_records


@click.group(help="Look into a gateway's outbox: what waits to go up, and the law it is balanced by.")
def command() -> None:
    pass


@command.command(help="Print the law as numbers that add up. PATH is the agent's state_dir or its outbox.db.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def stat(path: Path, as_json: bool) -> None:  # noqa: FBT001 - click passes options by name
    with _opened(path) as (file, db):
        ledger = _ledger(db)
        oldest = db.execute("SELECT min(born_us) FROM records").fetchone()[0]
        by_number = dict(db.execute("SELECT priority, count(*) FROM records GROUP BY priority").fetchall())
    by_priority = {priority.value: by_number.get(n, 0) for n, priority in enumerate(PRIORITIES)}
    figures = {
        "path": str(file),
        "committed": ledger.committed,
        "acked": ledger.acked,
        "pending": ledger.pending,
        "evicted": ledger.evicted,
        "set_aside": ledger.set_aside,
        "adds_up": ledger.balance == 0,
        "set_aside_files": ledger.set_aside_files,
        "gaps_pending": ledger.gaps,
        "gaps_dropped": ledger.gaps_dropped,
        "pending_by_priority": by_priority,
        "oldest_s": 0.0 if oldest is None else round((ledger.uptime_us - oldest) / 1e6, 3),
        "bytes": ledger.bytes,
        "file_bytes": file.stat().st_size,
        "flash_bytes_written": ledger.flash_bytes_written,
        "uptime_s": round(ledger.uptime_us / 1e6, 3),
    }
    if as_json:
        print(json.dumps(figures))
        return
    evicted = " + ".join(f"{count} ({why})" for why, count in ledger.evicted.items())
    print(f"{file}")
    print(
        f"committed {ledger.committed} {'=' if ledger.balance == 0 else '≠'} acked {ledger.acked} + "
        f"pending {ledger.pending} + evicted {evicted} + set aside {ledger.set_aside}"
    )
    counts = ", ".join(f"{count} {name}" for name, count in reversed(by_priority.items()))
    print(f"pending: {counts}; oldest {figures['oldest_s']} s of uptime")
    print(
        f"gaps to send: {ledger.gaps}; given up: {ledger.gaps_dropped}; "
        f"damaged files set aside: {ledger.set_aside_files}"
    )
    print(
        f"bytes: {ledger.bytes} kept, {figures['file_bytes']} on disk, {ledger.flash_bytes_written} written so far"
    )


@command.command("ls", help="List what waits to go up, next first: records, then gaps.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="Rows of each kind."
)
def list_rows(path: Path, as_json: bool, limit: int) -> None:  # noqa: FBT001 - click passes options by name
    with _opened(path) as (_, db):
        uptime_us = db.execute("SELECT uptime_us FROM ledger").fetchone()[0]
        rows = db.execute(
            "SELECT run, stream, seq, priority, born_us, data FROM records "
            "ORDER BY priority DESC, born_us, entry LIMIT ?",
            (limit,),
        ).fetchall()
        gaps = db.execute(
            "SELECT run, stream, first, last, reason, detail FROM gaps ORDER BY number LIMIT ?", (limit,)
        ).fetchall()
    for run, stream, seq, priority, born_us, data in rows:
        record = _decoded(data)
        line = {
            "run": run.hex(),
            "stream": stream,
            "seq": seq,
            "answered_by": record.answered_by.value if record else "unreadable",
            "late_far": record.late_far if record else False,
            "priority": PRIORITIES[priority].value,
            "age_s": round((uptime_us - born_us) / 1e6, 3),
            "bytes": len(data),
        }
        print(json.dumps(line) if as_json else _plain(line))
    for run, stream, first, last, reason, detail in gaps:
        line = {
            "run": run.hex(),
            "stream": stream,
            "gap": reason,
            "first": first,
            "last": last,
            "detail": detail,
        }
        print(json.dumps(line) if as_json else _plain(line))


def _ledger(db: sqlite3.Connection) -> Ledger:
    """The numbers of the file: its ledger, and its rows counted."""
    tally = Tally(schema.read_ledger(db) or {})
    for name, table in (("pending", "records"), ("gaps", "gaps"), ("payloads_pending", "payloads")):
        if db.execute(
            "SELECT 1 FROM sqlite_master WHERE name = ?", (table,)
        ).fetchone():  # older formats lack some
            tally.add(name, db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    return tally.ledger()


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Path, sqlite3.Connection]]:
    file = path / schema.FILE_NAME if path.is_dir() else path
    db = schema.connect_read_only(file)
    try:
        yield file, db
    except (sqlite3.Error, TypeError) as error:
        raise ConfigError(f"{file} cannot be read as an outbox: {error}") from error
    finally:
        db.close()


def _decoded(data: bytes) -> Record | None:
    try:
        return wire_records.decode(data, "")
    except Rejected:
        return None


def _plain(line: dict[str, object]) -> str:
    values = {**line, "run": str(line["run"])[:8]}
    return "  ".join(f"{name} {value}" for name, value in values.items() if value not in ("", False))

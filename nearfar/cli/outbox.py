"""`nearfar outbox`: look into a gateway's outbox, also while its agent runs. Never changes the file."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from edge.outbox import schema
from pipelines.errors import ConfigError, Rejected
from pipelines.result import Record
from protos.wire import records as wire_records

PRIORITY_NAMES = ("low", "normal", "high")


@click.group(help="Look into a gateway's outbox: what waits to go up, and the law it is balanced by.")
def command() -> None:
    pass


@command.command(help="Print the law as numbers that add up. PATH is the agent's state_dir or its outbox.db.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def stat(path: Path, as_json: bool) -> None:  # noqa: FBT001 - click passes options by name
    with _opened(path) as (file, db):
        names = [name for name in schema.LEDGER_COLUMNS if name != "next_number"]
        ledger = dict(
            zip(names, db.execute(f"SELECT {', '.join(names)} FROM ledger").fetchone(), strict=True)
        )
        pending = int(db.execute("SELECT count(*) FROM records").fetchone()[0])
        gaps = int(db.execute("SELECT count(*) FROM gaps").fetchone()[0])
        oldest = db.execute("SELECT min(born_us) FROM records").fetchone()[0]
        by_priority = dict(db.execute("SELECT priority, count(*) FROM records GROUP BY priority").fetchall())
    evicted = {"age": ledger["evicted_age"], "bytes": ledger["evicted_bytes"]}
    total = ledger["acked"] + pending + sum(evicted.values()) + ledger["set_aside"]
    figures = {
        "path": str(file),
        "committed": ledger["committed"],
        "acked": ledger["acked"],
        "pending": pending,
        "evicted": evicted,
        "set_aside": ledger["set_aside"],
        "adds_up": ledger["committed"] == total,
        "set_aside_files": ledger["set_aside_files"],
        "gaps_pending": gaps,
        "gaps_dropped": ledger["gaps_dropped"],
        "pending_by_priority": {name: by_priority.get(n, 0) for n, name in enumerate(PRIORITY_NAMES)},
        "oldest_s": 0.0 if oldest is None else round((ledger["uptime_us"] - oldest) / 1e6, 3),
        "bytes": ledger["bytes"],
        "file_bytes": file.stat().st_size,
        "flash_bytes_written": ledger["flash_bytes_written"],
        "uptime_s": round(ledger["uptime_us"] / 1e6, 3),
    }
    if as_json:
        print(json.dumps(figures))
        return
    sign = "=" if figures["adds_up"] else "≠"
    print(f"{file}")
    print(
        f"committed {ledger['committed']} {sign} acked {ledger['acked']} + pending {pending} + "
        f"evicted {evicted['age']} (age) + {evicted['bytes']} (bytes) + set aside {ledger['set_aside']}"
    )
    counts = ", ".join(
        f"{by_priority.get(n, 0)} {name}" for n, name in reversed(list(enumerate(PRIORITY_NAMES)))
    )
    print(f"pending: {counts}; oldest {figures['oldest_s']} s of uptime")
    print(
        f"gaps to send: {gaps}; given up: {ledger['gaps_dropped']}; damaged files set aside: {ledger['set_aside_files']}"
    )
    print(
        f"bytes: {ledger['bytes']} kept, {figures['file_bytes']} on disk, {ledger['flash_bytes_written']} written so far"
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
            "priority": PRIORITY_NAMES[priority],
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

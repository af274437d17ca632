"""`nearfar records`: read a record store."""

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from cloud.store.records import RecordStore
    from cloud.store.row import RecordRow

_SHOWN = 20
_LINE = "{:<16} {:<8} {:<12} {:>8}  {:<8} {:<8} {:>9}  {:<3} {}"


@click.command(name="records")
@click.option(
    "--store", "url", required=True, metavar="URL", help="E.g. sqlite:////var/lib/nearfar/records.db."
)
@click.option("--json", "as_json", is_flag=True, help="One row per line as JSON, in the order of identities.")
@click.option(
    "--limit", type=click.IntRange(min=1), help=f"Rows to show; the table shows the newest {_SHOWN}."
)
def command(url: str, as_json: bool, limit: int | None) -> None:  # noqa: FBT001 - click passes by name
    """Show the records of a store: who answered each frame, whether on time, and what is missing and why."""
    from cloud.store.records import open_store  # noqa: PLC0415 - SQLAlchemy loads only when a store is read

    with open_store(url, read_only=True) as store:
        if as_json:
            for row in store.rows(limit=limit):
                print(json.dumps(row.as_dict()))
            return
        _show(store, limit or _SHOWN)


def _show(store: "RecordStore", limit: int) -> None:
    print(_LINE.format("agent", "run", "stream", "seq", "by", "status", "ms", "on", "best detections"))
    for row in store.rows(limit=limit, newest_first=True):
        print(_line(row))
    counts = store.counts()
    total = counts["records"]
    known = total - counts["unknown"]
    share = f"{100 * counts['on_time'] / known:.1f} %" if known else "none known yet"
    print(f"\nstore {store.store_id}: {total} records")
    print(
        f"  answered by: near {counts['near']}, far {counts['far']}, tracked {counts['tracked']}, "
        f"missed {counts['missed']}, outcome not here yet {counts['unknown']}"
    )
    print(
        f"  on time: {counts['on_time']} of {known} with a known outcome ({share}); late far results: {counts['late_far']}"
    )
    gaps = store.gaps()
    print(f"  gaps: {len(gaps)}")
    for agent, gap in gaps[:limit]:
        frames = f"{gap.first}..{gap.last}"
        print(
            f"    {agent} {gap.run.hex()[:8]} {gap.stream} {frames}: {gap.reason.value} {gap.detail}".rstrip()
        )
    if len(gaps) > limit:
        print(f"    … and {len(gaps) - limit} more (--limit)")


def _line(row: "RecordRow") -> str:
    best = row.best
    seen = "-" if best is None else str(len(best))
    return _LINE.format(
        row.id.agent,
        row.id.run.hex()[:8],
        row.id.stream,
        row.id.seq,
        row.answered_by.value if row.answered_by else "?",
        row.status or "?",
        "?" if row.latency_us is None else f"{row.latency_us / 1000:.1f}",
        {None: "?", True: "yes", False: "no"}[row.on_time],
        seen + (" (far, late)" if row.late_far else ""),
    )

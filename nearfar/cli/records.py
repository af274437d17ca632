"""`nearfar records`: read a record store, also while its workers write. Never changes it."""

import sys
import time
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearfar import extras
from nearfar.cli import outputs
from nearfar.cli.values import MOST, FiniteRange
from nearfar.records import shape
from nearfar.records.moment import moment_us
from pipelines.errors import ConfigError
from pipelines.result import AnsweredBy

if TYPE_CHECKING:
    from cloud.store.query import Query
    from cloud.store.records import RecordStore

_SHOWN = 20
_UNSURE_BELOW = 0.5


class Moment(click.ParamType[int]):
    """µs since 1970."""

    name = "MOMENT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return moment_us(str(value), now_unix_us=time.time_ns() // 1000)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class RunDigits(click.ParamType[str]):
    """The first digits of a run's name."""

    name = "HEX"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        digits = str(value).lower()
        if not digits or len(digits) > 32 or set(digits) - set("0123456789abcdef"):
            self.fail(f"{value} is not how a run begins: a name has 32 digits of 0-9 and a-f", param, ctx)
        return digits


_SCORE = FiniteRange(0, 1)


@click.command(name="records")
@click.option(
    "--store",
    "url",
    required=True,
    metavar="URL",
    envvar="NEARFAR_STORE",
    help="sqlite:////var/lib/nearfar/records.db or postgresql+psycopg://USER@HOST/DATABASE; also from NEARFAR_STORE, "
    "where nobody sees a password in it.",
)
@click.option("--agent", help="Of this gateway.")
@click.option("--stream", help="Of this stream.")
@click.option("--run", type=RunDigits(), help="Of the run whose name begins so.")
@click.option(
    "--since",
    "since_us",
    type=Moment(),
    help="Captured then or later (arrived, where the gateway did not know the time, and for --gaps): 2026-11-30, "
    "2026-11-30T14:05, or 2h for two hours ago.",
)
@click.option("--until", "until_us", type=Moment(), help="The same, before then.")
@click.option("--by", type=click.Choice([who.value for who in AnsweredBy]), help="Who gave the answer.")
@click.option("--label", help="With a box of this label.")
@click.option("--score-above", type=_SCORE, help="With a box of a higher score.")
@click.option("--score-below", type=_SCORE, help="With a box of a lower score.")
@click.option(
    "--disagree", is_flag=True, help="Far saw what near or the tracker did not say, or the other way round."
)
@click.option(
    "--gaps",
    is_flag=True,
    help="The gap ledger: frames without a record, and why; of a killed agent (interrupted) a bound, no count.",
)
@click.option(
    "--hard",
    type=click.Path(path_type=Path),
    metavar="OUT_DIR",
    help="Write the hard examples of what matches to a new folder: pictures and COCO annotations.json, for labelling.",
)
@click.option(
    "--unsure-below",
    type=_SCORE,
    default=_UNSURE_BELOW,
    show_default=True,
    help="For --hard: a box with a lower score makes a record hard.",
)
@click.option(
    "--payloads",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="For --hard: where the pictures are, if not where the worker said.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "jsonl", "csv"]),
    default="table",
    show_default=True,
    help="The table has the newest first; jsonl and csv are in the order of identities, and have every field.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format jsonl.")
@click.option(
    "--limit",
    type=click.IntRange(1, MOST),
    help=f"Rows to show, or pictures with --hard. Default: all; the newest {_SHOWN} in the table of records.",
)
def command(
    *,
    url: str,
    gaps: bool,
    hard: Path | None,
    unsure_below: float,
    payloads: Path | None,
    form: str,
    as_json: bool,
    limit: int | None,
    **conditions: Any,
) -> None:
    """Show the records of a store: who answered each frame, whether on time, and what is missing and why.

    Conditions are joined: all of them must hold.
    """
    if gaps and hard:
        raise ConfigError("--gaps and --hard are two questions; ask one at a time")
    if hard is not None and (as_json or form != "table"):
        raise ConfigError(
            "--hard writes pictures and annotations.json to OUT_DIR, whatever --format or --json says; leave it out"
        )
    if payloads is not None and hard is None:
        raise ConfigError("--payloads says where the pictures for --hard are; it goes with --hard OUT_DIR")
    extras.must_have("cloud", extras.CLOUD[:1], who="nearfar records")
    from cloud.store.query import Query  # noqa: PLC0415 - SQLAlchemy loads only when a store is read
    from cloud.store.records import open_store  # noqa: PLC0415

    by = conditions.pop("by")
    query = Query(by=None if by is None else AnsweredBy(by), with_payload=hard is not None, **conditions)
    form = "jsonl" if as_json else form
    with open_store(url, read_only=True) as store:
        if hard is not None:
            _write_hard(store, query, hard, payloads=payloads, limit=limit, unsure_below=unsure_below)
        elif gaps:
            _show_gaps(store, query, form, limit)
        elif form == "table":
            _show(store, query, limit or _SHOWN)
        else:
            rows = store.rows(query, limit=limit)
            if form == "csv":
                shape.write_csv(rows, sys.stdout)
            else:
                _print(shape.json_lines(rows))


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def _show(store: "RecordStore", query: "Query", limit: int) -> None:
    shown = -1  # the heading
    for line in shape.table(store.rows(query, limit=limit, newest_first=True)):
        print(line)
        shown += 1
    if not query.is_everything:
        words = "the newest of those that match; --limit shows more" if shown == limit else "all that match"
        print(f"\nstore {store.store_id}: {shown} shown, {words}")
        return
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
    print(f"  gaps: {counts['gaps']}" + (" (--gaps lists them)" if counts["gaps"] else ""))


def _show_gaps(store: "RecordStore", query: "Query", form: str, limit: int | None) -> None:
    if not query.suits_gaps:
        raise ConfigError(
            "gaps have no answers: --gaps goes with --agent, --stream, --run, --since and --until"
        )
    found = store.gaps(query)
    part = list(islice(found, limit))
    if form == "csv":
        shape.write_gap_csv(part, sys.stdout)
    elif form == "jsonl":
        _print(shape.gap_json_lines(part))
    else:
        _print(shape.gap_table(part))
        if len(found) > len(part):
            print(f"… and {len(found) - len(part)} more (--limit)")


def _write_hard(
    store: "RecordStore",
    query: "Query",
    out: Path,
    *,
    payloads: Path | None,
    limit: int | None,
    unsure_below: float,
) -> None:
    from cloud.store.payloads.folder import PayloadFolder, folder_of  # noqa: PLC0415
    from nearfar.records.coco import CocoFolder  # noqa: PLC0415
    from nearfar.records.hard import why_hard  # noqa: PLC0415

    where = payloads or (Path(store.payloads_path) if store.payloads_path else None)
    if where is None:
        raise ConfigError(
            "no worker of this store keeps pictures; set store.payloads in its file, "
            "or name their folder with --payloads"
        )
    own = folder_of(where, store.store_id)
    pictures = own if own.is_dir() else where
    if not pictures.is_dir():
        raise ConfigError(f"there is no payload folder at {where}; is its file system mounted?")
    unusable: list[str] = []
    folder = CocoFolder(out, PayloadFolder(pictures), left_out=unusable.append)
    tally: dict[str, int] = {}
    with outputs.writing(out):
        for row in store.rows(query, newest_first=True):
            if len(folder) == limit:
                break
            why = why_hard(row, unsure_below=unsure_below)
            if why and folder.add(row, why):
                for name in why:
                    tally[name] = tally.get(name, 0) + 1
        folder.finish()
    reasons = ", ".join(f"{name} {count}" for name, count in tally.items())
    print(f"{out}: {len(folder)} pictures" + (f" ({reasons})" if reasons else ""))
    if unusable:
        print(
            f"{len(unusable)} pictures could not be used; the first: {shape.plain(unusable[0])}",
            file=sys.stderr,
        )

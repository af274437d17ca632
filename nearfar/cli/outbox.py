"""`nearfar outbox`: a gateway's outbox from outside. `stat`, `ls` and `export` only look, also while its agent runs;
`drain` and `purge` need it stopped."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from nearfar import process
from nearfar.cli.values import MOST, DurationOption
from nearfar.outbox.figures import figures_of, law
from nearfar.outbox.lines import decoded, gap_line, payload_line, record_line, row_line
from nearfar.outbox.selection import Selection
from nearfar.outbox.view import looking
from pipelines.errors import ConfigError, Retryable
from pipelines.result import Priority

F = TypeVar("F", bound=Callable[..., Any])

_PATH = click.Path(path_type=Path)
_AGE = DurationOption("AGE")
"""µs of uptime."""


def _selecting(command: F) -> F:
    """The options that say which records are meant."""
    for option in (
        click.option("--before", "before_us", type=_AGE, help="Captured that long ago or longer, like 2h."),
        click.option(
            "--since", "since_us", type=_AGE, help="Captured at most that long ago, in uptime, like 30m."
        ),
        click.option("--priority", type=click.Choice([p.value for p in Priority]), help="Of this priority."),
        click.option("--stream", help="Of this stream."),
    ):
        command = option(command)
    return command


def _selection(options: dict[str, Any]) -> Selection:
    priority = options.pop("priority")
    return Selection(priority=None if priority is None else Priority(priority), **options)


@click.group(
    help="A gateway's outbox: what waits to go up, the law it is balanced by, and what to do about it."
)
def command() -> None:
    pass


@command.command(help="Print the law as numbers that add up. PATH is the agent's state_dir or its outbox.db.")
@click.argument("path", type=_PATH)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def stat(path: Path, as_json: bool) -> None:  # noqa: FBT001 - click passes options by name
    with looking(path) as view:
        figures = figures_of(view)
    if as_json:
        print(json.dumps(figures))
        return
    print(figures["path"])
    print(law(figures))
    counts = ", ".join(f"{count} {name}" for name, count in reversed(figures["pending_by_priority"].items()))
    print(f"pending: {counts}; oldest {figures['oldest_s']} s of uptime")
    if figures["payloads"]["committed"]:
        print(f"pictures: {law(figures['payloads'], pictures=True)}; {figures['payloads']['bytes']} bytes")
    print(
        f"gaps to send: {figures['gaps_pending']}; given up: {figures['gaps_dropped']}; "
        f"damaged files set aside: {figures['set_aside_files']}"
    )
    if figures["refused"]:
        print(
            f"set aside and still here, since a worker cannot read them: {figures['refused']} (`ls` says why, `export` "
            "writes them, `drain --refused` sends them once more, `purge --refused` deletes them)"
        )
    print(
        f"bytes: {figures['bytes']} kept, {figures['file_bytes']} on disk, {figures['flash_bytes_written']} written "
        f"so far, {figures['flash_gb_per_day']} GB a day of uptime"
    )


@command.command("ls", help="List what waits to go up, next first: records, then pictures, then gaps.")
@click.argument("path", type=_PATH)
@_selecting
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.option(
    "--limit", type=click.IntRange(1, MOST), default=1000, show_default=True, help="Rows of each kind."
)
def list_rows(path: Path, *, as_json: bool, limit: int, **conditions: Any) -> None:
    selection = _selection(conditions)
    with looking(path) as view:
        uptime_us = view.uptime_us
        for stored in view.records(selection, limit=limit):
            line = {"answered_by": "damaged"} if stored is None else row_line(stored, uptime_us)
            print(json.dumps(line) if as_json else _plain(line))
        for stored, why in view.refused(selection, limit=limit):
            line = {"answered_by": "damaged"} if stored is None else row_line(stored, uptime_us)
            line["set_aside"] = why
            print(json.dumps(line) if as_json else _plain(line))
        for payload in view.payloads(selection, limit=limit):
            line = {"picture": "damaged"} if payload is None else payload_line(payload, uptime_us)
            print(json.dumps(line) if as_json else _plain(line))
        for found in view.gaps(selection, limit=limit):
            line = gap_line(found.gap, view.agent())
            line = {k: v for k, v in line.items() if k not in ("kind", "agent")}
            line = {"gap" if k == "reason" else k: v for k, v in line.items()}
            print(json.dumps(line) if as_json else _plain(line))
        more = {
            "records": view.count(selection) - limit,
            "pictures": view.count_payloads(selection) - limit,
        }
    for what, count in more.items():
        if count > 0 and not as_json:
            print(f"… and {count} more {what} (--limit)")


@command.command(help="Write whole records and gaps as JSON lines, next first, as of one moment.")
@click.argument("path", type=_PATH)
@_selecting
@click.option("--out", type=_PATH, help="A new file; left out: standard output.")
@click.option("--agent", help="Its name in the lines; left out: the one it kept.")
def export(path: Path, *, out: Path | None, agent: str | None, **conditions: Any) -> None:
    selection = _selection(conditions)
    written = damaged = 0
    with looking(path) as view, _written(out) as file:
        name, uptime_us = agent or view.agent(), view.uptime_us
        for stored in view.records(selection):
            record = None if stored is None else decoded(stored, name)
            if stored is None or record is None:
                damaged += 1
                continue
            line = record_line(record, uptime_us - stored.born_us, view.payload_of(stored.key))
            file.write(json.dumps(line) + "\n")
            written += 1
        for stored, why in view.refused(selection):
            record = None if stored is None else decoded(stored, name)
            if stored is None or record is None:
                damaged += 1
                continue
            line = record_line(record, uptime_us - stored.born_us, view.payload_of(stored.key))
            file.write(json.dumps(line | {"set_aside": why}) + "\n")
            written += 1
        for found in view.gaps(selection):
            file.write(json.dumps(gap_line(found.gap, name)) + "\n")
    print(f"{written} records written" + (f", {damaged} are damaged" if damaged else ""), file=sys.stderr)
    if damaged:
        sys.exit(process.FAILED)


@command.command(
    help="Send everything to a worker now, without the agent. Whatever ends it, run it again to go on."
)
@click.argument("path", type=_PATH)
@click.option(
    "--link", "url", required=True, metavar="URL", help="zmq://HOST:PORT or grpc://HOST:PORT of the worker."
)
@click.option("--agent", help="Whose records these are; left out: the name it kept.")
@click.option("--refused", is_flag=True, help="Records that a worker could not read, too: another may.")
@click.option("--patience", type=_AGE, default="10s", show_default=True, help="How long without a worker.")
def drain(path: Path, *, url: str, agent: str | None, refused: bool, patience: int) -> None:
    from edge.links.kinds import LINKS, LinkConfig  # noqa: PLC0415 - looking needs no link
    from edge.outbox.changes import Changes  # noqa: PLC0415
    from nearfar.outbox.custody import custody  # noqa: PLC0415
    from nearfar.outbox.drain import Drain  # noqa: PLC0415
    from nearfar.outbox.progress import Progress  # noqa: PLC0415
    from pipelines.runtime import monotonic_us  # noqa: PLC0415

    try:
        LinkConfig(url=url)
    except ValueError as error:
        raise ConfigError(f"--link {url}: {_words(error)}") from error
    with custody(path, to="drain") as held:
        with looking(path) as view:
            again = [s.number for s, _ in view.refused(Selection()) if s is not None] if refused else []
            if not view.waits and not again:
                print("nothing to send", file=sys.stderr)
                return
        name = agent or held.agent
        if not name:
            raise ConfigError(f"{path} does not say whose it is; give the agent's name with --agent NAME")
        if again:
            held.change([Changes(again=again)])
        link = LINKS[url.partition("://")[0]].resolve()(name="drain", url=url, clock_us=monotonic_us)
        made = Drain(held, link, agent=name, patience_s=patience / 1e6)
        stop = (
            process.stop_on_signals()
            if threading.current_thread() is threading.main_thread()
            else threading.Event()
        )
        told = Progress()
        try:
            left = made.run(stop, told.heard)
        except Retryable as error:
            raise Retryable(f"{url}: {error}; what is left stays in {path}, run it again to go on") from error
    told.end(left, made.said)
    if not left.empty or left.payloads_pending or left.refused:
        sys.exit(process.FAILED)


@command.command(
    help="Give records and their pictures up for good: they will never reach the cloud, which is told which frames the "
    "records were of."
)
@click.argument("path", type=_PATH)
@_selecting
@click.option(
    "--refused", is_flag=True, help="Only records that a worker could not read and that were set aside."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def purge(path: Path, *, refused: bool, yes: bool, **conditions: Any) -> None:
    from nearfar.outbox import custody  # noqa: PLC0415

    selection = _selection(conditions)
    with custody.custody(path, to="purge") as held:
        with looking(path) as view:
            rows = custody.chosen(view, selection, refused=refused)
        if not rows:
            print("nothing of that kind is there")
            return
        which = "all of it" if selection.is_everything else "what matches"
        what = rows.in_words()
        if not yes and not _sure(f"Give up {what} ({which})? They will never reach the cloud."):
            print("nothing was purged")
            return
        gone = custody.purge(held, rows)
    print(f"{gone} purged" + ("" if refused else "; the cloud learns of the gap with what goes up next"))


def _sure(question: str) -> bool:
    """What a person answers. ConfigError where there is nobody to ask."""
    silent = ConfigError("nothing was given up: nobody answered the question; --yes goes without it")
    if sys.stdin is None or sys.stdin.closed:
        raise silent
    try:
        return click.confirm(question, err=True)
    except click.Abort as error:
        if sys.stdin.isatty():  # a person, who has interrupted it
            raise
        click.echo(err=True)
        raise silent from error


@contextmanager
def _written(out: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that is there whole or not at all."""
    if out is None:
        yield sys.stdout
        return
    if out.exists():
        raise ConfigError(f"{out} exists; name a new file")
    draft = out.with_name(out.name + ".part")
    try:
        with draft.open("w", encoding="utf-8") as file:
            yield file
        draft.replace(out)
    except OSError as error:
        raise ConfigError(f"cannot write {out}: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)


def _words(error: ValueError) -> str:
    errors = getattr(error, "errors", None)
    return str(error) if errors is None else errors()[0]["msg"].removeprefix("Value error, ")


def _plain(line: dict[str, Any]) -> str:
    values = {**line, "run": str(line.get("run", ""))[:8]}
    return "  ".join(
        f"{name} {_one_line(value)}" for name, value in values.items() if value not in ("", False)
    )


def _one_line(value: object) -> str:
    """A worker's words may hold anything, what moves a terminal's cursor too."""
    return "".join(c if c.isprintable() else " " for c in str(value))

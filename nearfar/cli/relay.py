"""`nearfar relay`: a bad link for rehearsals."""

import json
import time
from pathlib import Path

import click

from nearfar import process
from nearfar.cli.values import FiniteRange


@click.command(name="relay")
@click.option("--listen", required=True, metavar="HOST:PORT", help="Where agents connect; port 0 works.")
@click.option("--to", required=True, metavar="HOST:PORT", help="The worker.")
@click.option(
    "--rtt-ms", type=FiniteRange(0, 60_000), default=0.0, show_default=True, help="Added round trip."
)
@click.option(
    "--rate-mbit", type=FiniteRange(0, 1_000_000), default=0.0, help="Mbit/s each way; 0 = no limit."
)
@click.option(
    "--schedule",
    type=click.Path(path_type=Path, dir_okay=False),
    help="YAML list of steps: {at: 10s, rtt_ms: 200, rate_mbit: 8, state: pass|stall|reset}.",
)
def command(listen: str, to: str, rtt_ms: float, rate_mbit: float, schedule: Path | None) -> None:
    """Pass TCP streams on from --listen to --to like a bad link would: delay, rate, stall, reset.

    Needs no privileges. Prints one JSON `ready` line, then one line per change; runs until SIGTERM.
    """
    from nearfar.relay import Relay  # noqa: PLC0415 - asyncio loads only where it runs
    from nearfar.relay_schedule import load_schedule  # noqa: PLC0415

    steps = [] if schedule is None else load_schedule(schedule)
    stop = process.stop_on_signals()
    relay = Relay(listen, to)
    relay.start()
    relay.set(rtt_ms=rtt_ms, rate_mbit=rate_mbit)
    process.ready(listen=relay.address, to=to, rtt_ms=rtt_ms, rate_mbit=rate_mbit)
    begun_s = time.monotonic()
    for step in steps:
        if stop.wait(max(0.0, begun_s + step.at / 1e6 - time.monotonic())):
            break
        at_us = relay.set(rtt_ms=step.rtt_ms, rate_mbit=step.rate_mbit, state=step.state)
        changed = {k: v for k, v in step.model_dump(exclude={"at"}).items() if v is not None}
        print(json.dumps({"at_s": step.at / 1e6, "mono_us": at_us, **changed}), flush=True)
    stop.wait()
    relay.stop()

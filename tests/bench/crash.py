"""kill −9, again and again: whatever an independent sink saw is in the cloud once, or the gap ledger names it.

`--kills` (1,000) random ones on outbox and record store with nothing else around, about one in six on both at a time,
in two houses side by side (`--houses`), each with its own files that live through all of its kills. `--system N` adds
N on whole agents and workers, on loopback, or with `--netlab PROFILE` (root and ../shared; say `--cc`) between two
network namespaces with that profile's loss.
"""

import argparse
import json
import os
import random
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from pipelines import runtime
from pipelines.errors import Fatal
from tests.bench.report import Report, run
from tests.support.kill_house import KillHouse, fork, kill_house
from tests.support.kill_storm import Outcome, storm
from tests.support.rig import Rig, rig

SEED = 20
KILLS = 1000
HOUSES = 2
FIGURES = "figures.json"
NETLAB = Path(__file__).parents[3] / "shared" / "netlab"


def _kill(house: KillHouse, victim: str) -> None:
    if victim != "worker":
        house.kill_agent()
    if victim != "agent":
        house.kill_cloud()
        house.start_cloud()
    if victim != "worker":
        house.start_agent()


def side_by_side(root: Path, kills: int, houses: int) -> dict[str, Any]:
    """The kills shared out among `houses`, each in a process of its own; all their figures added up."""
    begun_s = time.monotonic()
    working: dict[int, Path] = {}
    for number in range(houses):
        folder = root / str(number)
        folder.mkdir()
        share = kills * (number + 1) // houses - kills * number // houses
        working[fork(partial(_in_a_house, folder, share, SEED + number))] = folder
    unwell = [folder.name for pid, folder in working.items() if os.waitpid(pid, 0)[1]]
    if unwell:
        raise Fatal(f"the killer of house {', '.join(unwell)} died")
    found = [json.loads((folder / FIGURES).read_text()) for folder in working.values()]
    added = {name: sum(figures[name] for figures in found) for name in found[0] if name != "kills"}
    victims: Counter[str] = sum((Counter(figures["kills"]) for figures in found), Counter())
    return {"kills": dict(victims), "houses": houses, "seconds": round(time.monotonic() - begun_s), **added}


def _in_a_house(folder: Path, kills: int, seed: int) -> bool:
    figures = outbox_and_store(folder, kills, random.Random(seed))
    (folder / FIGURES).write_text(json.dumps(figures))
    return True


def outbox_and_store(root: Path, kills: int, dice: random.Random) -> dict[str, Any]:
    victims: Counter[str] = Counter()
    with kill_house(root) as house:
        house.start_cloud()
        house.start_agent()
        for number in range(kills):
            # Half of them early, where files are made and read and the connection is not yet there.
            house.wait(dice.uniform(0.005, 0.15) if number % 2 else dice.uniform(0.5, 1.3))
            victim = dice.choice(["agent", "agent", "agent", "worker", "worker", "both"])
            victims[victim] += 1
            _kill(house, victim)
        house.kill_agent()
        house.start_agent(drain_s=60.0)
        drained = house.finish_agent()
        house.kill_cloud()
        outcome = Outcome.of(house.seen, store_url=house.records_url)
        with closing(sqlite3.connect(house.outbox)) as db:
            pending, files = db.execute(
                "SELECT (SELECT count(*) FROM records), set_aside_files FROM ledger"
            ).fetchone()
    return {
        "kills": dict(victims),
        "drained": int(drained),
        "pending": pending,
        "damaged_files": files,
        **outcome.as_dict(),
    }


def whole_system(report: Report, arguments: argparse.Namespace, kills: int) -> None:
    name = "system" + (f" over {arguments.netlab}" if arguments.netlab else " on loopback")
    with tempfile.TemporaryDirectory() as folder:
        if arguments.netlab:
            sys.path.insert(0, str(NETLAB))
            from netlab import Link  # type: ignore[import-not-found]  # noqa: PLC0415

            with Link(arguments.netlab, cc=arguments.cc or "cubic") as link:
                made = Rig(
                    Path(folder),
                    deadline="300ms",
                    worker_host=link.cloud_addr,
                    inside={
                        "edge": ["ip", "netns", "exec", link.edge_ns],
                        "cloud": ["ip", "netns", "exec", link.cloud_ns],
                    },
                )
                try:
                    outcome = storm(made, kills, random.Random(SEED))
                finally:
                    made.close()
        else:
            with rig(Path(folder), deadline="300ms") as made:
                outcome = storm(made, kills, random.Random(SEED))
    report.figures[name] = outcome.as_dict()
    bars(report, name, outcome.as_dict())


def bars(report: Report, name: str, figures: Mapping[str, Any]) -> None:
    report.at_most(f"{name}: answers lost in silence", 0, figures["lost_in_silence"])
    report.at_most(f"{name}: near answers lost", 0, figures["near_lost"])
    report.at_most(f"{name}: answers seen twice or recorded twice", 0, figures["twice"])
    report.at_most(
        f"{name}: records of frames that nothing explains", 0, figures["recorded_unseen_unexplained"]
    )


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """Kills, and what became of every answer that was seen."""
    kills = int(arguments.kills or (40 if arguments.quick else KILLS))
    runtime.tune()
    if kills:
        houses = int(arguments.houses or HOUSES)
        with tempfile.TemporaryDirectory() as folder:
            figures = side_by_side(Path(folder), kills, houses)
        report.figures["outbox and store"] = figures
        bars(report, "outbox and store", figures)
        report.at_least("outbox and store: everything went up in the end", houses, figures["drained"])
        report.at_most("outbox and store: damaged files", 0, figures["damaged_files"])
    system = int(arguments.system or 0)
    if system:
        whole_system(report, arguments, system)


if __name__ == "__main__":
    run(
        "crash",
        measure,
        values={
            "kills": "on outbox and store",
            "houses": f"so many outboxes, each with its store, side by side; {HOUSES} if left out",
            "system": "on whole agents and workers",
            "netlab": "the profile of an emulated link for those",
            "cc": "its congestion control",
        },
    )

"""Short runs with known ends. They change when the scheduler, the link model or the dice do.

python -m tests.support.golden_simulations     # writes them down anew; look at what changed before you keep it
"""

import json
from pathlib import Path

from nearfar.simulation.link.trace import LinkTrace
from pipelines.result import AnsweredBy
from tests.support.simulated import POLICIES, S, link, run, scenario

FILE = Path(__file__).with_name("golden_simulations.json")
LINKS: dict[str, LinkTrace] = {
    "steady": link(mbit=20),
    "narrow": link(mbit=2),
    "step": link(mbit=20, rtt_steps=((6 * S, 200.0), (12 * S, 30.0))),
    "blackhole": link(mbit=20, outage=(6 * S, 12 * S)),
    "lossy": link(mbit=20, loss=0.02, jitter_us=6_000),
}


def golden() -> dict[str, dict[str, int]]:
    """What was written down, by `link, policy`."""
    kept: dict[str, dict[str, int]] = json.loads(FILE.read_text())
    return kept


def played(name: str, policy: str) -> dict[str, int]:
    """The end of 300 frames over the link `name`."""
    outcome = run(scenario(LINKS[name], seed=1), policy)
    ends = outcome.ends.values()
    return {
        "on_time": sum(end.on_time for end in ends),
        "near": sum(end.by is AnsweredBy.NEAR for end in ends),
        "far": sum(end.by is AnsweredBy.FAR for end in ends),
        "up_bytes": outcome.up_bytes,
        "near_us": outcome.near_us,
        "last_released_us": max((end.released_us for end in ends), default=0),
    }


def main() -> None:
    ends = {f"{name}, {policy}": played(name, policy) for name in LINKS for policy in POLICIES}
    lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(end)}" for key, end in ends.items())
    FILE.write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()

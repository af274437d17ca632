"""Whether simulation and emulated links agree: the same recipe, trace and pictures through `nearfar simulate`.

    python -m tests.bench.scenarios.simulated --out runs.jsonl

For every good run of the scripted worker over a trace in the file: near takes as long as it did in near_only's run there, the worker as long as the
scripted one. In virtual time the first frame comes a second after the beginning of the trace, over the link with it.
"""

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from edge.config.pipeline import load_pipeline
from nearfar.simulation.accuracies import AccuraciesFile, scored
from nearfar.simulation.comparison import run
from nearfar.simulation.link.traces import read_trace
from nearfar.simulation.recipe import Assumed, Setup, set_up
from nearfar.simulation.summary import Summary, summarise
from tests.bench.scenarios.catalogue import BY_NAME
from tests.bench.scenarios.clip_cache import ALL_RUNGS, ClipCache, path_of_cache
from tests.bench.scenarios.recipe import ladder_of, pipeline_yaml
from tests.bench.scenarios.results import Results, Row

RTT_US = 30_000
ON_TIME, F1 = 0.005, 0.03
"""How far apart the two may be."""


def comparisons(results: Results, cache: ClipCache) -> Iterator[tuple[Row, Summary]]:
    """Each run over a trace, and what simulation says of it."""
    accuracies = scored(AccuraciesFile.model_validate(cache.accuracies(ALL_RUNGS)))
    near_ms = {
        (row["plan"]["scenario"], row["plan"]["deadline_ms"]): row["near_ms"]
        for row in results.good
        if row["plan"]["policy"] == "near_only" and row.get("near_ms")
    }
    for row in results.good:
        plan = row["plan"]
        scenario = BY_NAME[plan["scenario"]]
        weather = (plan["scenario"], plan["deadline_ms"])
        if scenario.trace is None or weather not in near_ms or plan["worker"] != "cached":
            continue
        with tempfile.TemporaryDirectory() as root:
            path = Path(root) / "pipeline.yaml"
            path.write_text(_recipe(Path(root), plan, cache))
            config = load_pipeline(path)
        assumed = Assumed(
            frames=plan["frames"],
            fps=plan["fps"],
            near_us=round(1000 * near_ms[weather]),
            worker_us=round(1000 * (plan["service_ms"] or cache.typical_us / 1000)),
        )
        trace = read_trace(scenario.trace, rtt_us=RTT_US)
        setup: Setup = set_up(config, trace, assumed=assumed, accuracies=accuracies)
        yield row, summarise(run(setup, plan["policy"]), setup.scenario)


def _recipe(root: Path, plan: dict[str, Any], cache: ClipCache) -> str:
    return pipeline_yaml(
        root,
        policy=plan["policy"],
        deadline_ms=plan["deadline_ms"],
        fps=plan["fps"],
        host="10.77.0.2",
        link=plan["link"],
        ladder=ladder_of(plan["ladder"], cache),
        near_accuracy=cache.f1(None),
    )


def markdown(pairs: Sequence[tuple[Row, Summary]]) -> str:
    out = [
        "| scenario | deadline | policy | on time: link, simulated | F1 | far | kB/frame | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    ranked: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    for row, said in pairs:
        plan = row["plan"]
        ranked[plan["scenario"], plan["deadline_ms"]].append((row["f1"], said.f1))
        agree = abs(row["on_time"] - said.on_time) <= ON_TIME and abs(row["f1"] - said.f1) <= F1
        cells = [
            plan["scenario"],
            f"{plan['deadline_ms']} ms",
            plan["policy"],
            f"{100 * row['on_time']:.2f} %, {100 * said.on_time:.2f} %",
            f"{row['f1']:.3f}, {said.f1:.3f}",
            f"{row['by'].get('far', 0) / row['captured']:.2f}, {said.far:.2f}",
            f"{row['kb_per_frame']:.1f}, {said.kb_per_frame:.1f}",
            "agree" if agree else "**differ**",
        ]
        out.append(f"| {' | '.join(cells)} |")
    out.append("")
    for (name, deadline_ms), f1 in ranked.items():
        same = sorted(f1) == sorted(f1, key=lambda pair: pair[1])
        words = "the same" if same else "**another**"
        out.append(f"- {name}, {deadline_ms} ms: {words} ranking of policies by F1")
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.scenarios.simulated",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="runs of tests.bench.scenarios")
    results = Results(parser.parse_args().out)
    print(markdown(list(comparisons(results, ClipCache.read(path_of_cache())))))


if __name__ == "__main__":
    main()

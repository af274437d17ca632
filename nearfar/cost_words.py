"""What `nearfar cloud --explain` says: the measured costs of a worker's models as a table, or as JSON."""

from typing import Any

from cloud.models.cost_table import BUDGET_US, CostTable, ModelCost
from pipelines.units import format_duration


def as_text(table: CostTable) -> str:
    plan = table.plan
    lines = [f"threads: {plan.budget} to share, {plan.decode} of them decode ahead"]
    if table.processes:
        lines.append(
            f"engine processes: {table.processes}, each with every instance; measured here as threads of one process"
        )
    if plan.warning:
        lines.append(f"warning: {plan.warning}")
    for model in table.models:
        lines += ["", *_model_lines(model)]
    return "\n".join(lines)


def as_data(table: CostTable) -> dict[str, Any]:
    return {
        "processes": table.processes,
        "threads": {
            "budget": table.plan.budget,
            "decode": table.plan.decode,
            "warning": table.plan.warning,
        },
        "models": {
            model.name: {
                "detector": model.detector,
                "instances": model.instances,
                "threads": model.threads,
                "batch": {"max": model.batch.max, "wait_us": model.batch.wait_us},
                "queue_frames": model.queue_frames,
                "queue_budget_us": BUDGET_US,
                "advice": model.advice,
                "left_out": model.left_out,
                "runs": [
                    {
                        "instances": cell.instances,
                        "batch": cell.batch,
                        "run_us": cell.run_us,
                        "frames_per_s": cell.frames_per_s,
                    }
                    for cell in model.cells
                ],
            }
            for model in table.models
        },
    }


def _model_lines(model: ModelCost) -> list[str]:
    lines = [
        f"model {model.name}: {model.detector}",
        "  instances  batch  threads  ms per run  frames/s",
    ]
    for cell in model.cells:
        chosen = (cell.instances, cell.batch) == (model.instances, model.batch.max)
        lines.append(
            f"  {cell.instances:9}  {cell.batch:5}  {cell.instances * model.threads:7}  "
            f"{cell.run_us / 1000:10.2f}  {cell.frames_per_s:8.1f}{'  <- as the file says' if chosen else ''}"
        )
    wait = f", waiting {format_duration(model.batch.wait_us)} for company" if model.batch.wait_us else ""
    runs = (
        "each frame runs alone" if model.batch.max == 1 else f"runs of up to {model.batch.max} frames{wait}"
    )
    bound = f"a budget of {format_duration(BUDGET_US)} lets {model.queue_frames} frames wait while every instance works"
    lines += [
        f"  decided: {model.instances} × {model.threads} threads, {runs}",
        f"  {bound}; decoding is not in these figures",
    ]
    if model.left_out:
        lines.append(f"  there was no time to measure {model.left_out} more sizes of runs")
    if model.advice:
        lines.append(f"  {model.advice}")
    return lines

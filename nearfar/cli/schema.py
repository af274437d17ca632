"""`nearfar schema`: the JSON Schema of both files, for editors and for reading."""

import json
from typing import Any

import click

from cloud.config import WorkerConfig
from edge.config import PipelineConfig
from pipelines.blocks import Block

MODELS: dict[str, type[Block]] = {"pipeline": PipelineConfig, "worker": WorkerConfig}


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the `pipeline` or the `worker` file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        # "serialization" is the mode that writes defaults as people do: 100ms, not 100000.
        **MODELS[name].model_json_schema(mode="serialization"),
    }


@click.command(name="schema")
@click.argument("name", type=click.Choice(list(MODELS)), default="pipeline")
def command(name: str) -> None:
    """Print the JSON Schema of a pipeline (default) or a worker file, units and defaults described."""
    click.echo(json.dumps(schema(name), indent=2, ensure_ascii=False))

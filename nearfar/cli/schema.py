"""`nearfar schema`: the JSON Schema of both files, for editors, and the same as Markdown, for reading."""

import json
from typing import Any

import click

from cloud.config import WorkerConfig
from edge.config.pipeline import PipelineConfig
from nearfar.reference import reference
from pipelines.blocks import Block

MODELS: dict[str, type[Block]] = {"pipeline": PipelineConfig, "worker": WorkerConfig}
_TITLES = {"pipeline": "The pipeline file", "worker": "The worker file"}
_READ_BY = {"pipeline": "edge", "worker": "cloud"}


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the `pipeline` or the `worker` file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        # "serialization" is the mode that writes defaults as people do: 100ms, not 100000.
        **MODELS[name].model_json_schema(mode="serialization"),
    }


def markdown(name: str) -> str:
    """The reference of the `pipeline` or the `worker` file, as it stands in docs/."""
    intro = (
        f"What the YAML file of `nearfar {_READ_BY[name]}` may say: every key, its default and its unit. "
        f"Made from the schema by `nearfar schema {name} --markdown`; nothing else is accepted.\n\n"
        "A block is a mapping of its own. A key without a default column entry (–) gets one from other keys, as "
        "its meaning says. Relative paths start at the directory of the file. `--set path=value` on the "
        "command line changes one key: `--set deadline=75ms`."
    )
    return reference(MODELS[name], schema(name), title=_TITLES[name], intro=intro)


@click.command(name="schema")
@click.argument("name", type=click.Choice(list(MODELS)), default="pipeline")
@click.option(
    "--markdown", "as_markdown", is_flag=True, help="A reference for reading instead of JSON Schema."
)
def command(name: str, *, as_markdown: bool) -> None:
    """Print the JSON Schema of a pipeline (default) or a worker file, units and defaults described."""
    click.echo(
        markdown(name).rstrip() if as_markdown else json.dumps(schema(name), indent=2, ensure_ascii=False)
    )

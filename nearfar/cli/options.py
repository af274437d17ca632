"""Options several commands share, worded once."""

import click

overrides = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Override a key, e.g. deadline=75ms of a pipeline or drain=5s of a worker; repeatable. "
    "File paths stay relative to the YAML file.",
)

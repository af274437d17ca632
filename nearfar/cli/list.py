"""`nearfar list`: the kinds a file may name."""

import click

from cloud.deploy.kinds import DEPLOYMENTS
from cloud.listeners.kinds import LISTENERS
from cloud.store.kinds import STORES
from edge.capture.kinds import SOURCES
from edge.config.scheduler import POLICIES
from edge.links.kinds import LINKS
from edge.sinks.kinds import SINKS
from pipelines.codecs.kinds import CODECS
from pipelines.detectors.kinds import DETECTORS
from pipelines.gates.kinds import GATES
from pipelines.registry import Family, Kind
from pipelines.trackers.kinds import TRACKERS

FAMILIES = {
    family.name: family
    for family in (
        SOURCES,
        GATES,
        CODECS,
        DETECTORS,
        TRACKERS,
        POLICIES,
        LINKS,
        SINKS,
        LISTENERS,
        STORES,
        DEPLOYMENTS,
    )
}


@click.command(name="list")
@click.argument("family", type=click.Choice(list(FAMILIES)), required=False)
def command(family: str | None) -> None:
    """List the kinds of FAMILY (default: of every family), one line each, with the extra they need."""
    for name in [family] if family else FAMILIES:
        _show(FAMILIES[name])


def _show(family: Family) -> None:
    click.echo(family.name)
    width = max(len(kind.name) for kind in family)
    for kind in family:
        click.echo(f"  {kind.name:<{width}}  {kind.words}{_needs(kind)}")


def _needs(kind: Kind) -> str:
    if not kind.extra:
        return ""
    state = "not installed" if kind.missing else "installed"
    return f" [needs nearfar[{kind.extra}]: {state}]"

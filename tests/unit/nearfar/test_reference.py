"""The YAML reference in docs/ says what the schema says: keys, defaults, refusals."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pytest
from pydantic import Field

from nearfar.cli.schema import MODELS, markdown
from nearfar.reference import reference
from pipelines.blocks import Block
from pipelines.units import Duration, duration

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("name", MODELS)
def test_the_reference_is_not_stale(name: str):
    # A documented default that differs from the real one misleads for years (F24).
    assert (DOCS / f"{name}.md").read_text() == markdown(name), "run: make docs"


class Lens(Block):
    """A piece of glass."""

    focus: Duration = Field(duration("40ms"), description="time to | focus")
    clean: bool = True


class Eye(Block):
    """Sees."""

    kind: Literal["eye"]
    lenses: Annotated[dict[str, Lens], Field(min_length=1)]
    gain: float = Field(2.0, gt=0, description="of the sensor")

    not_built: ClassVar = {"lid": "lids are not built yet; leave lid out"}


def page() -> str:
    return reference(Eye, Eye.model_json_schema(mode="serialization"), title="Eyes", intro="To see.")


def test_every_key_stands_with_its_default_as_people_write_it():
    lines = page().splitlines()
    assert "| `focus` | duration, like `100ms` | `40ms` | time to \\| focus |" in lines
    assert "| `clean` | `true` or `false` | `true` |  |" in lines
    assert "| `gain` | number, above 0 | `2` | of the sensor |" in lines
    assert "| `lenses` | blocks by name (NAME), below | must be given |  |" in lines


def test_a_block_has_a_section_named_by_its_path():
    assert "## `lenses.NAME`\n\nA piece of glass." in page()


def test_what_is_refused_for_now_is_said():
    assert "- `lid`: lids are not built yet; leave lid out" in page()

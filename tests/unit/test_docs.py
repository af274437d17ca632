"""The pages people read name only what there is: files, commands, options, services, recipes, YAML that is accepted."""

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from cloud.config import WorkerConfig
from edge.config.pipeline import PipelineConfig
from nearfar.cli.main import COMMANDS, nearfar
from pipelines.document import Document

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GENERATED = {"pipeline.md", "worker.md"}
SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def by_name(path: Path) -> str:
    return path.name


def code_lines(page: Path) -> list[str]:
    """Lines a reader would paste into a shell, continuation lines joined."""
    text = re.sub(r"\\\n\s*", "", page.read_text())
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    indented = [line for line in text.splitlines() if line.startswith("    ")]
    return [line.strip() for line in [*indented, *"\n".join(blocks).splitlines()]]


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_link_to_a_file_leads_somewhere(page: Path):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text())
    assert [t for t in targets if not (page.parent / t).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_command_of_a_page_exists_with_its_options(page: Path):
    for line in code_lines(page):
        for found in re.findall(r"(?:^|[/ ])nearfar ((?:edge|cloud|[a-z]+)\b[^|&>#;]*)", line):
            words = shlex.split(found)
            assert words[0] in COMMANDS, f"{page.name}: no command in: {line}"
            command = nearfar.get_command(click.Context(nearfar), words[0])
            assert command is not None, f"{page.name}: {line}"
            if isinstance(command, click.Group) and len(words) > 1:
                command = command.get_command(click.Context(command), words[1])
                assert command is not None, f"{page.name}: {line}"
            known = {option for parameter in command.params for option in parameter.opts}
            used = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert used <= known | {"--help", "--version"}, f"{page.name}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_service_a_page_talks_to_is_in_the_compose_file(page: Path):
    for line in code_lines(page):
        found = re.match(
            r"docker-compose (?:kill|start|stop|pause|unpause|exec|logs)\s+(.*?)(?:\s+#|$)", line
        )
        if found is None:
            continue
        words = [w for w in found[1].split() if not w.startswith("-") and not w.isdecimal()]
        named = words[:1] if " exec " in line else words
        assert named
        assert set(named) <= set(SERVICES), f"{page.name}: {line}"


@pytest.mark.parametrize("page", [p for p in PAGES if p.name not in GENERATED], ids=by_name)
def test_every_configuration_on_a_page_is_accepted(page: Path, tmp_path: Path):
    for number, block in enumerate(
        re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    ):
        if "version: 1" not in block:
            continue
        path = tmp_path / f"{number}.yaml"
        path.write_text(block)
        Document.read(path).validate(WorkerConfig if "listen:" in block else PipelineConfig)


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_recipe_a_page_names_is_packaged(page: Path):
    named = re.findall(r"pipelines/recipes/([a-z-]+\.yaml)", page.read_text())
    assert [name for name in named if not (ROOT / "pipelines" / "recipes" / name).is_file()] == []


def test_every_page_is_reached_from_the_readme():
    readme = (ROOT / "README.md").read_text()
    unreached = [p.name for p in PAGES[1:] if f"(docs/{p.name})" not in readme]
    assert unreached == []


HOUSE = (ROOT / "docs" / "architecture.md").read_text()
PLACES = re.findall(r"`((?:edge|cloud|protos|pipelines|nearfar|tests)/[\w/.]+)`", HOUSE)


def test_every_place_the_plan_of_the_house_names_is_there():
    assert [place for place in PLACES if not (ROOT / place).exists()] == []
    suites = re.findall(r"`(test_\w+\.py)`", HOUSE)
    assert [name for name in suites if not (ROOT / "tests" / "contract" / name).exists()] == []


@pytest.mark.parametrize("package", ["edge", "cloud"])
def test_every_folder_of_agent_and_worker_is_in_the_plan_of_the_house(package: str):
    folders = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
    assert {f"{package}/{folder}" for folder in folders} <= set(PLACES)


def test_every_family_of_kinds_is_in_the_plan_of_the_house_with_its_contract():
    table = re.findall(r"^\| (\w+) \| `([\w/.]+)`", HOUSE, re.MULTILINE)
    homes = {str(path.parent.relative_to(ROOT)) for path in ROOT.glob("[a-z]*/*/kinds.py")}
    assert {home for _, home in table if (ROOT / home).is_dir()} == homes

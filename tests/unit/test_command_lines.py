"""Command lines written down elsewhere are ones the command takes: images, compose files, the Makefile."""

import json
import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from nearfar.cli.main import nearfar

ROOT = Path(__file__).parents[2]


def in_the_dockerfile() -> list[list[str]]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    assert text.count('ENTRYPOINT ["nearfar"]') == text.count("ENTRYPOINT"), (
        "another program would get the words"
    )
    return [json.loads(words) for words in re.findall(r"^CMD (.*)$", text, re.MULTILINE)]


def in_compose() -> list[list[str]]:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"].values()
    found = []
    for service in services:
        command = service.get("command")
        if command is not None:
            found.append(
                shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
            )
        check = [str(word) for word in service.get("healthcheck", {}).get("test", [])]
        if check:
            assert check[:2] == ["CMD", "nearfar"]
            found.append(check[2:])
    return found


def in_the_docs() -> list[list[str]]:
    """What is run inside an image: `docker run … nearfar-edge ARGUMENTS`, and `nearfar ARGUMENTS` in a block."""
    found = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for line in re.findall(r"^ {4}(.*)$|^(nearfar .*|docker.*)$", page.read_text(), re.MULTILINE):
            words = " ".join(line).partition("#")[0]
            words = words.partition("|")[0].rstrip()
            match = re.search(
                r"(?:^\s*| exec [\w-]+ )nearfar ([a-z]+(?: .*)?)$|docker run .* nearfar-\w+ (.+)", words
            )
            if match:
                found.append(shlex.split(match[1] or match[2]))
    return found


def parsed(words: list[str], group: click.Group = nearfar) -> None:
    """Raises click's own error where the command would."""
    command = group.get_command(click.Context(group), words[0])
    assert command is not None, f"no command {words[0]}"
    if isinstance(command, click.Group):
        parsed(words[1:], command)
    else:
        command.make_context(words[0], list(words[1:]))


def test_there_are_command_lines_to_check():
    assert len(in_the_dockerfile()) >= 2
    assert in_compose()
    assert in_the_docs()


@pytest.mark.parametrize("words", in_the_dockerfile() + in_compose() + in_the_docs(), ids=" ".join)
def test_a_command_line_that_is_written_down_is_one_the_command_takes(words):
    parsed(words)


def test_a_word_the_command_does_not_know_would_be_found():
    with pytest.raises(click.NoSuchOption, match="--run-dir"):
        parsed(["demo", "--run-dir", "/var/lib/nearfar/demo"])

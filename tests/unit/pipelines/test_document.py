"""A problem in a file names its line, what was found, what is allowed and the nearest word."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pytest
from pydantic import Field

from pipelines.blocks import Block, FilePath, InputFile, Name
from pipelines.document import Document
from pipelines.errors import ConfigError
from pipelines.units import Duration, duration


class Leaf(Block):
    mode: Literal["fast", "slow"] = "fast"
    wait: Duration = duration("1s")
    title: str = ""
    count: int = 0
    path: FilePath | None = None
    model: InputFile | None = None
    size: Annotated[int, Field(ge=1, le=9)] | Literal["auto"] = "auto"
    pause: Duration | None = Field(None, ge=100_000)

    not_built: ClassVar = {"tls": "TLS is not built yet", "mode=turbo": "turbo is not built yet"}


class Tree(Block):
    version: Literal[1]
    leaves: dict[Name, Leaf] = Field(default_factory=dict)
    rungs: tuple[Leaf, ...] = Field((), strict=False)


def document(text, directory=None):
    return Document(text, file="t.yaml", directory=directory)


def problems(text, overrides=()):
    def read():
        parsed = document(text)
        parsed.override(overrides, Tree)
        return parsed.validate(Tree)

    with pytest.raises(ConfigError) as caught:
        read()
    return caught.value.problems


def only(text, overrides=()):
    found = problems(text, overrides)
    assert len(found) == 1, found
    return found[0]


def test_an_unknown_key_names_its_place_the_allowed_ones_and_the_nearest():
    problem = only("version: 1\nleaves:\n  a:\n    wiat: 2s\n")
    assert (problem.file, problem.line, problem.column) == ("t.yaml", 4, 5)
    assert problem.path == "leaves.a.wiat"
    assert problem.found == "wiat"
    assert problem.nearest == "wait"
    assert "mode, wait, title" in problem.allowed


def test_a_wrong_word_names_the_allowed_ones_and_the_nearest():
    problem = only("version: 1\nleaves: {a: {mode: fats}}\n")
    assert (problem.line, problem.column, problem.path) == (2, 20, "leaves.a.mode")
    assert (problem.found, problem.allowed, problem.nearest) == ("fats", "fast, slow", "fast")


def test_every_problem_is_told_at_once_in_the_order_of_the_file():
    found = problems("version: 1\nleaves:\n  a: {mode: x, wait: 5}\n  b: {cuont: 1}\nbranch: 2\n")
    assert [p.path for p in found] == ["leaves.a.mode", "leaves.a.wait", "leaves.b.cuont", "branch"]


def test_a_problem_is_told_in_four_short_lines_at_most():
    for problem in problems("version: 1\nleaves:\n  a: {mode: fats, wait: 5, title: [1], tls: {}}\n"):
        lines = str(problem).splitlines()
        assert len(lines) <= 4
        assert max(map(len, lines)) < 160


@pytest.mark.parametrize(("word", "boolean"), [("on", "true"), ("no", "false"), ("off", "false")])
def test_a_word_yaml_reads_as_a_boolean_is_explained_as_written(word, boolean):
    problem = only(f"version: 1\nleaves: {{a: {{mode: {word}}}}}\n")
    assert problem.found == word
    assert f"`{word}` as the boolean {boolean}" in problem.message


def test_digits_where_text_belongs_are_explained():
    assert 'write "17"' in only("version: 1\nleaves: {a: {title: 17}}\n").message


def test_a_key_that_is_not_built_gives_its_sentence():
    problem = only("version: 1\nleaves:\n  a:\n    tls: {ca: x}\n")
    assert (problem.line, problem.message) == (4, "TLS is not built yet")


def test_a_word_that_is_not_built_gives_its_sentence():
    assert only("version: 1\nleaves: {a: {mode: turbo}}\n").message == "turbo is not built yet"


def test_a_key_given_twice_is_refused_with_both_lines():
    problem = only("version: 1\nleaves:\n  a: {count: 1}\n  a: {count: 2}\n")
    assert problem.line == 4
    assert "line 3" in problem.message


@pytest.mark.parametrize("key", ["on", "1", "~"])
def test_a_key_yaml_does_not_read_as_text_is_refused(key):
    assert f'write "{key}"' in only(f"version: 1\nleaves:\n  {key}: {{}}\n").message


@pytest.mark.parametrize(
    "text",
    [
        "version: [1\n",
        "version: 1\n\tx: 1\n",
        "a: 1\n---\nb: 2\n",
        "version: !!python/object/apply:os.system [id]\n",
        "version: !thing 1\n",
        "version: 2024-99-99\n",
        "x: \x00\n",
        "- 1\n",
    ],
)
def test_text_that_is_no_plain_yaml_mapping_is_a_problem_of_the_file(text):
    with pytest.raises(ConfigError) as caught:
        document(text).validate(Tree)
    assert all(p.file == "t.yaml" for p in caught.value.problems)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x]\nb: &b [*a, *a]\n"
        + "".join(f"{chr(c)}: &{chr(c)} [{', '.join(['*' + chr(c - 1)] * 9)}]\n" for c in range(99, 110)),
        "a: &a {b: *a}\n",
        "a: " + "[" * 5000 + "]" * 5000,
    ],
)
def test_a_file_that_grows_without_end_is_refused(text):
    with pytest.raises(ConfigError, match="YAML"):
        document(text)


def test_merge_keys_are_refused():
    assert "merge" in only("version: 1\nleaves:\n  a: &x {count: 1}\n  b:\n    <<: *x\n").message


def test_another_version_says_what_to_do_and_nothing_else():
    problem = only("version: 2\nwhatever: [1, 2]\n")
    assert (problem.line, problem.found, problem.allowed) == (1, "2", "1")
    assert "install the nearfar" in problem.message


@pytest.mark.parametrize("text", ["", "leaves: {}\n"])
def test_a_missing_version_says_what_to_write(text):
    assert "write `version: 1`" in only(text).message


def test_a_password_in_an_address_is_not_repeated():
    problem = only('version: 1\nleaves: {a: {count: "db://me:hunter2@host/x"}}\n')
    assert "hunter2" not in str(problem)
    assert "***@host" in problem.found


def test_paths_are_relative_to_the_file_that_names_them(tmp_path):
    tree = document("version: 1\nleaves: {a: {path: out/x, model: /m}}\n", tmp_path).validate(Tree)
    assert tree.leaves["a"].path == tmp_path / "out" / "x"
    assert tree.leaves["a"].model == Path("/m")


def test_a_file_that_is_not_there_is_found_with_its_line(tmp_path):
    parsed = document("version: 1\nrungs:\n  - {model: gone.onnx}\n", tmp_path)
    tree = parsed.validate(Tree)
    with pytest.raises(ConfigError) as caught:
        parsed.check_files(tree)
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == ("rungs.0.model", 3)
    assert str(tmp_path / "gone.onnx") in problem.message
    (tmp_path / "gone.onnx").write_bytes(b"")
    parsed.check_files(tree)


def test_a_document_that_cannot_be_read_is_a_configuration_error(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        Document.read(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xff")
    with pytest.raises(ConfigError, match="UTF-8"):
        Document.read(tmp_path / "latin.yaml")


def test_an_override_changes_what_the_file_says_and_adds_what_it_leaves_out():
    parsed = document("version: 1\nleaves: {a: {wait: 5s}}\nrungs: [{count: 1}]\n")
    parsed.override(
        [
            "leaves.a.wait=80ms",
            "leaves.a.mode=slow",
            "leaves.b={count: 3}",
            "rungs.0.count=2",
            "rungs.1.count=9",
        ],
        Tree,
    )
    tree = parsed.validate(Tree)
    assert (tree.leaves["a"].wait, tree.leaves["a"].mode, tree.leaves["b"].count) == (80_000, "slow", 3)
    assert [rung.count for rung in tree.rungs] == [2, 9]


@pytest.mark.parametrize(
    ("assignment", "nearest"),
    [
        ("leafs.a.wait=1s", "leaves"),
        ("leaves.door1.wait=1s", "leaves.door"),
        ("leaves.door.wiat=1s", "leaves.door.wait"),
        ("leaves.door.wait.x=1s", ""),
        ("rungs.7.count=1", ""),
        ("rungs.first=1", ""),
        ("leaves.door", ""),
        ("=1", ""),
    ],
)
def test_an_override_of_a_path_that_is_none_names_the_nearest(assignment, nearest):
    problem = only("version: 1\nleaves: {door: {}}\n", [assignment])
    assert problem.file == f"--set {assignment}"
    assert problem.nearest == nearest


def test_a_wrong_value_in_an_override_is_blamed_on_the_override_not_on_the_file():
    problem = only("version: 1\nleaves: {a: {wait: 5s}}\n", ["leaves.a.wait=80"])
    assert problem.file == "--set leaves.a.wait=80"
    assert (problem.line, problem.found) == (0, "80")
    assert "write 80ms" in problem.message


def test_a_version_in_quotes_is_told_to_lose_them():
    problem = only('version: "1"\n')
    assert "is text here; write `version: 1`, without quotes" in problem.message


@pytest.mark.parametrize("written", ["0x360", "010", "1:30"])
def test_digits_yaml_reads_as_another_number_are_told_as_written(written):
    number = {"0x360": "864", "010": "8", "1:30": "90"}[written]
    words = f"YAML reads a bare {written} as the number {number}: write what is meant, in quotes"
    text = "version: 1\nleaves: {a: {wait: %s}}\n"
    assert only(text % written).message == words
    assert only(text % "1s", [f"leaves.a.wait={written}"]).message == words


@pytest.mark.parametrize("written", ["100", "1.5", "-3", "0"])
def test_a_plain_number_without_its_unit_is_told_how_to_be_written(written):
    problem = only(f"version: 1\nleaves: {{a: {{wait: {written}}}}}\n")
    assert problem.message == f"a duration needs its unit: write {written}ms (or {written}s)"


def test_brackets_without_end_are_told_in_words():
    problem = only("version: 1\nleaves: " + "[" * 5000)
    assert "lie too deep inside each other" in problem.message
    assert "recursion" not in problem.message


def test_a_password_in_an_override_is_not_repeated():
    with pytest.raises(ConfigError) as raised:
        document("version: 1\n").override(["leves.a=grpc://gw:s3cret@h:1"], Tree)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("written", "message", "nearest"),
    [
        ("0", "must be greater than or equal to 1, or auto", ""),
        ("atuo", "must be a whole number, or auto", "auto"),
        ("1.5", "must be a whole number, or auto", ""),
    ],
)
def test_a_number_that_may_also_be_a_word_is_told_once_and_at_its_place(written, message, nearest):
    problem = only(f"version: 1\nleaves: {{a: {{size: {written}}}}}\n")
    assert (problem.path, problem.line, problem.column) == ("leaves.a.size", 2, 20)
    assert (problem.message, problem.found, problem.nearest) == (message, written, nearest)


def test_a_bound_of_a_duration_is_told_with_its_unit():
    problem = only("version: 1\nleaves: {a: {pause: 0ms}}\n")
    assert (problem.path, problem.message) == ("leaves.a.pause", "must be greater than or equal to 100ms")

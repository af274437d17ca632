"""A file that is no YAML: the line to look at, and what is wrong there, in words for who wrote it."""

import pytest

from pipelines.document import Document
from pipelines.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("a: 1\nb: {c: 1\nd: 2\n", 2, 4, "the { that opens here is not closed before line 3"),
        ("a: 1\nb: {c: 1 d: 2}\n", 2, 4, "or a comma is missing between its values"),
        ("a: [1, 2\nb: 3\n", 1, 4, "the [ that opens here is not closed before line 2"),
        ('a: "one\nb: 2\nc: 3\n', 1, 4, "the quotation mark that opens here is never closed"),
        ("a: 1\n\tb: 2\n", 2, 1, "a tab stands where YAML takes only spaces"),
        ("a: 1\nb: 2\n c: 3\n", 3, 3, "or a line that is indented too far"),
        (
            "a: 1\nb: {c: 1}\n d: 3\n",
            3,
            2,
            "not indented like the others of its block, which begins at line 1",
        ),
        ("a: b: c\n", 1, 5, "a ':' too many"),
        ("a: 1\nb: 'it's'\n", 2, 8, "too much behind a value that has ended"),
        ('a: "x" y\n', 1, 8, "too much behind a value that has ended"),
        ("a: {b: 1}}\n", 1, 10, "a quotation mark or a bracket too many"),
        ('a: 1\nb: "two\nc: 3\nd: {e: "zmq://h:1"}\n', 2, 4, "closed in line 4 only; is one missing?"),
        ("a: 1\nb: x\x00y\n", 2, 5, "may stand in no YAML"),
        ("a: 1\nb\nc: 2\n", 2, 1, "a key without ':'"),
        ("a: *b\n", 1, 4, "found undefined alias"),
    ],
    ids=lambda value: repr(value) if isinstance(value, str) and "\n" in value else "",
)
def test_a_fault_is_told_where_it_begins_and_in_words_of_the_file(text, line, column, words):
    with pytest.raises(ConfigError) as caught:
        Document(text, file="p.yaml")
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (line, column)
    assert words in problem.message


@pytest.mark.parametrize(
    "value",
    ["!!bool foo", "!!timestamp foo", '!!int ""', '!!float ""', '!!int "+"', "!<tag:yaml.org,2002:int> ___"],
)
def test_a_value_that_its_tag_does_not_suit_is_told_at_its_place(value):
    with pytest.raises(ConfigError) as caught:
        Document(f"a: 1\nb: {value}\n", file="p.yaml")
    (problem,) = caught.value.problems
    assert (problem.line, problem.path) == (2, "b")
    assert "is no value this file may hold" in problem.message


@pytest.mark.parametrize("escape", ["\\UFFFFFFFF", "\\UD8000000", "\\U00110000"])
def test_an_escape_for_no_character_is_told_in_words(escape):
    with pytest.raises(ConfigError, match="is no valid YAML"):
        Document(f'a: "{escape}"\n', file="p.yaml")


def test_a_file_in_another_encoding_is_told_with_the_line(tmp_path):
    (tmp_path / "p.yaml").write_bytes("a: 1\nb: Tür\n".encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        Document.read(tmp_path / "p.yaml")
    (problem,) = caught.value.problems
    assert problem.line == 2
    assert "UTF-8" in problem.message

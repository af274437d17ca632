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
        ("a: 1\nb: 2\n c: 3\n", 3, 3, "a ':' too many on this line"),
        (
            "a: 1\nb: {c: 1}\n d: 3\n",
            3,
            2,
            "not indented like the others of its block, which begins at line 1",
        ),
        ("a: b: c\n", 1, 5, "a ':' too many on this line"),
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

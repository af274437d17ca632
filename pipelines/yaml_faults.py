"""What a YAML parser's complaint means to who wrote the file, and where the fault begins, which is often lines above."""

from contextlib import suppress

import yaml

_OPENED = {"mapping": "{", "sequence": "["}


def fault_of(error: yaml.MarkedYAMLError | yaml.reader.ReaderError, text: str) -> tuple[str, int, int]:
    """Of the file `text`: words, line and column (from 1; 0 = unknown)."""
    if isinstance(error, yaml.reader.ReaderError):
        before = text[: error.position]
        column = len(before) - (before.rfind("\n") + 1) + 1
        return f"the character {error.character!r} may stand in no YAML", before.count("\n") + 1, column
    context, problem, mark = error.context or "", error.problem or "", error.problem_mark
    if "'\\t'" in problem:
        return _at(mark, "a tab stands where YAML takes only spaces: indent with spaces")
    if context == "while scanning a quoted scalar" and "end of stream" in problem:
        return _at(error.context_mark, "the quotation mark that opens here is never closed")
    quote = _last_long_quote(text)
    if quote is not None and mark is not None and mark.line >= quote.end_mark.line:
        words = f"the quotation mark that opens here is closed in line {quote.end_mark.line + 1} only; is one missing?"
        return _at(quote.start_mark, words)
    for kind, bracket in _OPENED.items():
        if context == f"while parsing a flow {kind}":
            noticed = "" if mark is None else f" before line {mark.line + 1}"
            words = f"the {bracket} that opens here is not closed{noticed}, or a comma is missing between its values"
            return _at(error.context_mark, words)
    if context.startswith("while parsing a block") and "expected <block end>" in problem:
        if mark is not None and text.splitlines()[mark.line][: mark.column].strip():
            return _at(
                mark,
                "this is too much behind a value that has ended: a quotation mark or a bracket too many?",
            )
        begun = "" if error.context_mark is None else f", which begins at line {error.context_mark.line + 1}"
        return _at(mark, f"this line is not indented like the others of its block{begun}")
    if problem == "mapping values are not allowed here":
        words = "a ':' too many, or a line that is indented too far; a value with ': ' in it needs quotation marks"
        return _at(mark, words)
    if problem == "could not find expected ':'":
        return _at(error.context_mark, "a key without ':' and a space behind it")
    words = ", ".join(part for part in (context, problem) if part)
    return _at(mark or error.context_mark, words)


def _last_long_quote(text: str) -> yaml.ScalarToken | None:
    """The last value in quotation marks that goes on over a line's end, as a forgotten one does up to the next quote."""
    found = None
    with suppress(yaml.YAMLError, ValueError, OverflowError):
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            if isinstance(token, yaml.ScalarToken) and token.style in ("'", '"'):
                long = token.end_mark.line > token.start_mark.line
                found = token if long else found
    return found


def _at(mark: yaml.Mark | None, words: str) -> tuple[str, int, int]:
    return (words, 0, 0) if mark is None else (words, mark.line + 1, mark.column + 1)

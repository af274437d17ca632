"""What a YAML parser's complaint means to who wrote the file, and where the fault begins, which is often lines above."""

import yaml

_OPENED = {"mapping": "{", "sequence": "["}


def fault_of(error: yaml.MarkedYAMLError) -> tuple[str, int, int]:
    """Words, line and column (from 1; 0 = unknown)."""
    context, problem = error.context or "", error.problem or ""
    if "'\\t'" in problem:
        return _at(error.problem_mark, "a tab stands where YAML takes only spaces: indent with spaces")
    if context == "while scanning a quoted scalar" and "end of stream" in problem:
        return _at(error.context_mark, "the quotation mark that opens here is never closed")
    for kind, bracket in _OPENED.items():
        if context == f"while parsing a flow {kind}":
            noticed = "" if error.problem_mark is None else f" before line {error.problem_mark.line + 1}"
            words = f"the {bracket} that opens here is not closed{noticed}, or a comma is missing between its values"
            return _at(error.context_mark, words)
    if context.startswith("while parsing a block") and "expected <block end>" in problem:
        begun = "" if error.context_mark is None else f", which begins at line {error.context_mark.line + 1}"
        return _at(error.problem_mark, f"this line is not indented like the others of its block{begun}")
    if problem == "mapping values are not allowed here":
        return _at(
            error.problem_mark, "a ':' too many on this line; a value with ': ' in it needs quotation marks"
        )
    if problem == "could not find expected ':'":
        return _at(error.context_mark, "a key without ':' and a space behind it")
    words = ", ".join(part for part in (context, problem) if part)
    return _at(error.problem_mark or error.context_mark, words)


def _at(mark: yaml.Mark | None, words: str) -> tuple[str, int, int]:
    return (words, 0, 0) if mark is None else (words, mark.line + 1, mark.column + 1)

"""Changes to single values of a YAML text that leave every other character as it was: comments, order, quotes, spaces.

A change replaces the characters of one value, or adds one key where a person would: behind the last of its mapping. What
came out is read again and must say what was meant and nothing else; where it does not (a value shared by an alias,
say) nothing is changed and EditError says so.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from pipelines.blocks import Steps

Plain = str | int | float
Value = Plain | Sequence[Mapping[str, Plain]]
"""A scalar, or a list of flat mappings, written one a line where the file is written in lines. Text is written as it is:
it must be plain YAML."""
_INDENT = 2


class EditError(Exception):
    """The file is written in a way that cannot be changed safely by a program."""


def with_values(text: str, changes: Mapping[Steps, Value]) -> str:
    """`text` with each value in its place; the mapping above a path that does not exist yet is made as well.

    Raises EditError when that cannot be done without touching anything else.
    """
    wanted = _loaded(text)
    for path, value in changes.items():
        text = _with_value(text, path, value)
        _put(wanted, path, value)
    if _loaded(text) != wanted:
        raise EditError("it shares values by anchors and aliases, or is written in an unusual way")
    return text


def with_comment_above(text: str, path: Steps, comment: str, *, mark: str) -> str:
    """`text` with the line `# {comment}` above the line of the key at `path`, in place of one there that begins with
    `# {mark}`. Unchanged where no comment can stand there."""
    root = _root(text)
    mapping = _find(root, path[:-1])
    key = _key(mapping, path[-1]) if mapping is not None else None
    if key is None:
        return text
    line_at = text.rfind("\n", 0, key.start_mark.index) + 1
    indent = text[line_at:][: len(text[line_at:]) - len(text[line_at:].lstrip(" "))]
    above_at = text.rfind("\n", 0, max(0, line_at - 1)) + 1 if line_at else 0
    above = text[above_at:line_at]
    before = text[:above_at] if above.strip().startswith(f"# {mark}") else text[:line_at]
    changed = f"{before}{indent}# {comment}{_line_end(text)}{text[line_at:]}"
    try:
        return changed if _loaded(changed) == _loaded(text) else text
    except EditError:
        return text


def _with_value(text: str, path: Steps, value: Value) -> str:
    root = _root(text)
    found = _find(root, path)
    if found is not None:
        return _replaced(text, found, path, value)
    missing = [path[-1]]
    above = path[:-1]
    while (mapping := _find(root, above)) is None and above:
        missing.insert(0, above[-1])
        above = above[:-1]
    if not isinstance(mapping, yaml.MappingNode) or any(isinstance(step, int) for step in missing):
        raise EditError(f"{'.'.join(map(str, path))} has no place in it")
    return _added(text, mapping, [str(step) for step in missing], value)


def _replaced(text: str, node: yaml.Node, path: Steps, value: Value) -> str:
    start, end = node.start_mark.index, _end(node)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return text[:start] + str(value) + text[end:]
    if isinstance(node, yaml.SequenceNode) and not node.flow_style and node.value:
        # To the end of the last line: a comment behind the last item was about that item.
        end = _line_after(text, end, keep_break=True)
        indent = " " * node.start_mark.column
        return text[:start] + _lines(value, indent, text).removeprefix(indent) + text[end:]
    del path
    return text[:start] + _flow(value) + text[end:]


def _added(text: str, mapping: yaml.MappingNode, keys: Sequence[str], value: Value) -> str:
    """`keys`: the one that is missing and those below it."""
    if mapping.flow_style:
        said = _nested_flow(keys, value)
        if mapping.value:
            at = _end(mapping.value[-1][1])
            return f"{text[:at]}, {said}{text[at:]}"
        at = mapping.start_mark.index + 1
        return text[:at] + said + text[at:]
    column = mapping.value[0][0].start_mark.column
    at = _line_after(text, _end(mapping.value[-1][1]), keep_break=False)
    said = _nested_lines(keys, value, column, text)
    if at and text[at - 1] != "\n":
        said = _line_end(text) + said
    return text[:at] + said + text[at:]


def _nested_flow(keys: Sequence[str], value: Value) -> str:
    if len(keys) > 1:
        return f"{keys[0]}: {{{_nested_flow(keys[1:], value)}}}"
    return f"{keys[0]}: {_flow(value)}"


def _nested_lines(keys: Sequence[str], value: Value, column: int, text: str) -> str:
    indent, end = " " * column, _line_end(text)
    if len(keys) > 1:
        return f"{indent}{keys[0]}:{end}{_nested_lines(keys[1:], value, column + _INDENT, text)}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"{indent}{keys[0]}:{end}{_lines(value, ' ' * (column + _INDENT), text)}{end}"
    return f"{indent}{keys[0]}: {value}{end}"


def _lines(items: Sequence[Mapping[str, Plain]], indent: str, text: str) -> str:
    return _line_end(text).join(f"{indent}- {_flow_mapping(item)}" for item in items)


def _flow(value: Value) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_flow_mapping, value)) + "]"
    return str(value)


def _flow_mapping(item: Mapping[str, Plain]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in item.items()) + "}"


# -- where things are ---------------------------------------------------------------------------------------


def _root(text: str) -> yaml.Node:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is None:
        raise EditError("it is empty")
    return root


def _find(node: yaml.Node | None, path: Steps) -> yaml.Node | None:
    for step in path:
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
        elif isinstance(node, yaml.MappingNode):
            node = next((value for key, value in node.value if key.value == step), None)
        else:
            return None
    return node


def _key(mapping: yaml.Node, name: str | int) -> yaml.Node | None:
    if not isinstance(mapping, yaml.MappingNode):
        return None
    return next((key for key, _ in mapping.value if key.value == name), None)


def _end(node: yaml.Node) -> int:
    """Where its last character is behind: a block collection's own mark is where the next thing begins."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(node, yaml.MappingNode) else last)
    return int(node.end_mark.index)


def _line_after(text: str, at: int, *, keep_break: bool) -> int:
    """The end of the line of the character before `at`: before its break, or behind it."""
    if at and text[at - 1] == "\n":  # a block scalar ends with its line
        return at - len(_line_end(text)) if keep_break else at
    found = text.find("\n", at)
    if found < 0:
        return len(text)
    if not keep_break:
        return found + 1
    return found - 1 if text[found - 1] == "\r" else found


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


# -- what it says -------------------------------------------------------------------------------------------


def _loaded(text: str) -> Any:
    try:
        # Copied, so that a change to a value that stands in two places by an alias shows.
        return _unshared(yaml.safe_load(text))
    except (yaml.YAMLError, ValueError) as error:
        raise EditError("it would not be YAML any more") from error


def _unshared(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unshared(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unshared(item) for item in value]
    return copy.copy(value)


def _put(data: Any, path: Steps, value: Value) -> None:
    step: Any
    for step in path[:-1]:
        data = data[step] if isinstance(data, list) else data.setdefault(step, {})
    written = value if isinstance(value, str | int | float) else [dict(item) for item in value]
    data[path[-1]] = _as_read(written)


def _as_read(value: Any) -> Any:
    """What YAML makes of the value as it is written."""
    if isinstance(value, list):
        return [{key: _as_read(inner) for key, inner in item.items()} for item in value]
    return yaml.safe_load(str(value)) if isinstance(value, str) else value

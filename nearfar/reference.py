"""The reference of a YAML file as Markdown, made from its schema: what is written there is what is checked.

One section per block, outermost first, each with a table of keys; defaults are spelled as people write
them. What is designed and refused for now is listed with the sentence the refusal gives.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.blocks import Block

Schema = Mapping[str, Any]

_TYPES = {
    "duration": "duration, like `100ms`",
    "size": "size, like `64MiB`",
    "extent": "`WIDTHxHEIGHT` in px",
    "fraction": "0 to 1, or a percentage",
    "path": "path",
}
_PLAIN = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true` or `false`"}
_NAME = "NAME"


@dataclass(frozen=True, slots=True)
class _Section:
    """One block where it first appears; `path` as people write it, `kind` for one of several blocks."""

    path: str
    kind: str
    block: str


def reference(model: type[Block], schema: Schema, *, title: str, intro: str) -> str:
    """Markdown for the file that `model` describes and `schema` is the JSON Schema of."""
    pages = _Pages(schema, {cls.__name__: cls for cls in _all_blocks()})
    lines = [f"# {title}", "", intro, ""]
    lines += [*pages.words_of(model.__name__, schema), *pages.table(schema)]
    lines += pages.refused(model.__name__)
    for section in pages.sections("", schema):
        heading = f"`{section.path}`" + (f", kind `{section.kind}`" if section.kind else "")
        block = schema["$defs"][section.block]
        lines += [f"## {heading}", "", *pages.words_of(section.block, block), *pages.table(block)]
        lines += pages.refused(section.block)
    return "\n".join(lines).rstrip() + "\n"


class _Pages:
    def __init__(self, schema: Schema, blocks: Mapping[str, type[Block]]) -> None:
        self._defs: Mapping[str, Schema] = schema.get("$defs", {})
        self._blocks = blocks

    # -- which blocks there are ---------------------------------------------------------------------------

    def sections(self, path: str, block: Schema, seen: set[str] | None = None) -> Iterator[_Section]:
        """Every block below `block`, depth first, each at the first place it may stand."""
        seen = set() if seen is None else seen
        for key, value in block.get("properties", {}).items():
            for name, suffix in self._blocks_in(value):
                if name in seen:
                    continue
                seen.add(name)
                at = f"{path}.{key}{suffix}" if path else f"{key}{suffix}"
                inner = self._defs[name]
                yield _Section(at, self._kind(inner), name)
                yield from self.sections(at, inner, seen)

    def _blocks_in(self, value: Schema) -> Iterator[tuple[str, str]]:
        """(block, what is written between the key and it) for each block a value may be."""
        if "$ref" in value:
            name = _last(value["$ref"])
            if "properties" in self._defs[name]:
                yield name, ""
        for option in (*value.get("anyOf", ()), *value.get("oneOf", ())):
            yield from self._blocks_in(option)
        if isinstance(value.get("items"), Mapping):
            yield from ((name, "[]" + rest) for name, rest in self._blocks_in(value["items"]))
        for inner in (*value.get("patternProperties", {}).values(), value.get("additionalProperties")):
            if isinstance(inner, Mapping):
                yield from ((name, f".{_NAME}{rest}") for name, rest in self._blocks_in(inner))

    @staticmethod
    def _kind(block: Schema) -> str:
        return str(block.get("properties", {}).get("kind", {}).get("const", ""))

    # -- what is said about one ---------------------------------------------------------------------------

    def words_of(self, name: str, block: Schema) -> list[str]:
        own = self._blocks.get(name)
        words = " ".join(str(block.get("description") or (own and own.__doc__) or "").split())
        return [words, ""] if words else []

    def table(self, block: Schema) -> list[str]:
        required = set(block.get("required", ()))
        rows = [
            f"| `{key}` | {self._type(value)} | {self._default(key, value, required)} | {_cell(value)} |"
            for key, value in block.get("properties", {}).items()
        ]
        if not rows:
            return ["No keys of its own.", ""]
        return ["| key | value | default | meaning |", "| --- | --- | --- | --- |", *rows, ""]

    def refused(self, name: str) -> list[str]:
        block = self._blocks.get(name)
        if block is None or not block.not_built:
            return []
        lines = [f"- `{key}`: {words}" for key, words in block.not_built.items()]
        return ["Refused for now:", "", *lines, ""]

    def _type(self, value: Schema) -> str:
        if "x-type" in value:
            return _TYPES[value["x-type"]]
        if "const" in value:
            return f"`{value['const']}`"
        if "enum" in value:
            return ", ".join(f"`{word}`" for word in value["enum"])
        if "$ref" in value:
            inner = self._defs[_last(value["$ref"])]
            return "block, below" if "properties" in inner else self._type(inner)
        options = [o for o in (*value.get("anyOf", ()), *value.get("oneOf", ())) if o.get("type") != "null"]
        if options:
            return " or ".join(dict.fromkeys(self._type(option) for option in options))
        if value.get("type") == "array":
            return f"list of {self._type(value.get('items', {}))}"
        if value.get("type") == "object":
            return f"blocks by name ({_NAME}), below"
        return _PLAIN.get(str(value.get("type")), "") + _range(value)

    def _default(self, key: str, value: Schema, required: set[str]) -> str:
        if "default" not in value:
            return "must be given" if key in required else "–"
        default = value["default"]
        if default is None:
            return "none"
        if default in ("", [], {}):
            return "empty"
        if isinstance(default, list) and not any(isinstance(item, Mapping) for item in default):
            return f"`[{', '.join(map(str, default))}]`"
        if isinstance(default, Mapping | list):
            return "as below"
        return f"`{_spelled(default)}`"


def _all_blocks(root: type[Block] = Block) -> Iterator[type[Block]]:
    for cls in root.__subclasses__():
        yield cls
        yield from _all_blocks(cls)


def _spelled(value: object) -> str:
    """As YAML spells it: `true`, `25`."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _last(reference: str) -> str:
    return reference.rsplit("/", 1)[-1]


def _range(value: Schema) -> str:
    low, high = value.get("minimum"), value.get("maximum")
    above = value.get("exclusiveMinimum")
    if low is not None and high is not None:
        return f", {low} to {high}"
    bounds = [f"at least {low}"] if low is not None else [f"above {above}"] if above is not None else []
    bounds += [f"at most {high}"] if high is not None else []
    return ", " + ", ".join(bounds) if bounds else ""


def _cell(value: Schema) -> str:
    return " ".join(str(value.get("description", "")).split()).replace("|", "\\|")

"""From pydantic's errors to problems a person can mend: file, line, path, found, allowed, nearest word.

Pydantic names a place by its own steps (with the tags of unions among them); `locate` walks the same steps
through the models and gives the path as written in the file, the block that owns it and the type expected.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Protocol, Union, get_args, get_origin

from pydantic import ValidationError

from pipelines.blocks import Block, MisfitError, Steps
from pipelines.errors import Problem
from pipelines.units import duration, format_duration, format_size, size

_WORDS = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping of `key: value` lines",
    "model_type": "must be a mapping of `key: value` lines",
    "model_attributes_type": "must be a mapping of `key: value` lines",
    "tuple_type": "must be a list",
    "union_tag_not_found": "`kind` is missing",
    "missing": "is missing",
}
_PLAIN_NUMBER = re.compile(r"[-+]?(0|[1-9]\d*)?(\.\d*)?(e[-+]?\d+)?", re.IGNORECASE)
_PATTERN_WORDS = {
    r"^[A-Za-z0-9][A-Za-z0-9_-]*$": "a name is made of letters, digits, - and _",
    r"^[0-9a-f]{64}$": "must be 64 lower-case hex digits",
}


class Written(Protocol):
    """What a diagnosis needs to know of the document."""

    def problem(
        self,
        path: Steps,
        message: str,
        *,
        on_key: bool = False,
        found: str = "",
        allowed: str = "",
        nearest: str = "",
    ) -> Problem: ...

    def as_written(self, path: Steps, value: object) -> str: ...


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """The types an annotation admits besides None, without `Annotated` around them."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return alternatives(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return tuple(t for arg in get_args(annotation) for t in alternatives(arg) if t is not NoneType)
    return (annotation,)


def blocks_of(annotation: Any) -> tuple[type[Block], ...]:
    return tuple(t for t in alternatives(annotation) if isinstance(t, type) and issubclass(t, Block))


def item_of(annotation: Any, container: type) -> Any:
    """The type of the items of a `dict` or `tuple` annotation, None if it is no such container."""
    for option in alternatives(annotation):
        if get_origin(option) is container:
            return get_args(option)[1 if container is dict else 0]
    return None


def kinds_of(block: type[Block]) -> tuple[str, ...]:
    info = block.model_fields.get("kind")
    return tuple(get_args(info.annotation)) if info else ()


@dataclass(frozen=True, slots=True)
class Place:
    """`owner.field` is the innermost named field on the way to `path`; `annotation` is what belongs there."""

    path: Steps
    owner: type[Block]
    field: str
    annotation: Any


def locate(model: type[Block], loc: Steps) -> Place:
    """Follow pydantic's `loc` through `model`."""
    path: list[str | int] = []
    owner, field = model, ""
    annotation: Any = model
    tag_due = False
    for step in loc:
        blocks = blocks_of(annotation)
        if tag_due:
            annotation = next((b for b in blocks if step in kinds_of(b)), None)
            tag_due = False
            continue
        if step == "[key]" or _is_choice_of_scalars(annotation):
            continue
        path.append(step)
        if blocks:
            owner, field = blocks[0], str(step)
            info = owner.model_fields.get(field)
            annotation = info.annotation if info else None
        else:
            annotation = item_of(annotation, tuple if isinstance(step, int) else dict)
        tag_due = len(blocks_of(annotation)) > 1
    return Place(tuple(path), owner, field, annotation)


def _is_choice_of_scalars(annotation: Any) -> bool:
    """Whether a step below it can only say which of several scalars was tried: `threads: 3`, or `auto`."""
    options = alternatives(annotation)
    return len(options) > 1 and not any(blocks_of(o) or get_origin(o) in (dict, tuple) for o in options)


def nearest(word: object, words: Iterator[str] | tuple[str, ...]) -> str:
    return next(iter(get_close_matches(str(word), list(words), n=1, cutoff=0.5)), "")


def explain(error: ValidationError, model: type[Block], document: Written) -> list[Problem]:
    """One problem per fault, in the order of the file."""
    faults = error.errors(include_url=False)
    problems = [
        problem
        for fault in faults
        if not _is_echo(fault, faults)
        for problem in _explain_one(fault, locate(model, fault["loc"]), document)
    ]
    return sorted(problems, key=lambda problem: (problem.line, problem.column))


def _is_echo(fault: Mapping[str, Any], faults: Sequence[Mapping[str, Any]]) -> bool:
    """Whether it only repeats another fault: a default that follows a wrong value, a list short of one."""
    if fault["type"] == "default_factory_not_called":
        return True
    here = fault["loc"]
    # A number or a word: told once.
    if fault["type"] == "literal_error" and str(here[-1]).startswith("literal["):
        return any(other is not fault and other["loc"][:-1] == here[:-1] for other in faults)
    return fault["type"] == "too_short" and any(
        other is not fault and other["loc"][: len(here)] == here for other in faults
    )


def _explain_one(fault: Mapping[str, Any], place: Place, document: Written) -> Iterator[Problem]:
    kind, found, context = fault["type"], fault["input"], fault.get("ctx", {})
    cause = context.get("error")
    if isinstance(cause, MisfitError):
        for below, words in cause.faults:
            yield document.problem((*place.path, *below), words)
        return
    if kind == "extra_forbidden":
        yield _unknown_key(place, document)
    elif kind == "missing":
        yield document.problem(place.path, _WORDS[kind], allowed=", ".join(_choices(place.annotation)))
    elif kind in ("union_tag_invalid", "union_tag_not_found"):
        yield _unknown_kind(place, found, document)
    elif kind in ("literal_error", "enum"):
        yield _unknown_word(place, found, document)
    else:
        sentence = _WORDS.get(kind) or _PATTERN_WORDS.get(context.get("pattern", ""))
        if kind in ("too_short", "too_long"):
            bound = "at least" if kind == "too_short" else "at most"
            sentence = f"must have {bound} {context.get('min_length', context.get('max_length'))}"
        message = sentence or (str(cause) if cause else _told(fault, document.as_written(place.path, found)))
        if cause and (read := _read_otherwise(found, place, document)):
            message = read  # what the cause says is about a number nobody wrote
        choices = _choices(place.annotation)
        if choices:
            message += f", or {' or '.join(choices)}"
        yield document.problem(
            place.path,
            message + _misread(found, place, document),
            on_key=fault["loc"][-1:] == ("[key]",),
            found=document.as_written(place.path, found),
            nearest=nearest(found, choices),
        )


def _told(fault: Mapping[str, Any], written: str) -> str:
    """Pydantic's sentence; a bound in the unit of what was written: inside, a duration is µs and a size bytes."""
    words = str(fault["msg"]).replace("Input should", "must")
    bound = next((v for k, v in fault.get("ctx", {}).items() if k in ("ge", "gt", "le", "lt")), None)
    if not isinstance(bound, int):
        return words
    for read, say in ((duration, format_duration), (size, format_size)):
        with suppress(ValueError):
            read(written)
            return words.replace(str(bound), say(bound))
    return words


def _unknown_key(place: Place, document: Written) -> Problem:
    key = str(place.path[-1])
    if key in place.owner.not_built:
        return document.problem(place.path, place.owner.not_built[key], on_key=True)
    keys = tuple(place.owner.model_fields)
    return document.problem(
        place.path, "unknown key", on_key=True, found=key, allowed=", ".join(keys), nearest=nearest(key, keys)
    )


def _unknown_kind(place: Place, found: Any, document: Written) -> Problem:
    kinds = tuple(k for block in blocks_of(place.annotation) for k in kinds_of(block))
    if not isinstance(found, Mapping) or "kind" not in found:
        return document.problem(place.path, _WORDS["union_tag_not_found"], allowed=", ".join(kinds))
    path, kind = (*place.path, "kind"), found["kind"]
    if sentence := place.owner.not_built.get(f"{place.field}.kind={kind}"):
        return document.problem(path, sentence)
    return document.problem(
        path,
        f"unknown kind of {place.field.removesuffix('s')}",
        found=document.as_written(path, kind),
        allowed=", ".join(kinds),
        nearest=nearest(kind, kinds),
    )


def _unknown_word(place: Place, found: Any, document: Written) -> Problem:
    if sentence := place.owner.not_built.get(f"{place.field}={found}"):
        return document.problem(place.path, sentence)
    words = _choices(place.annotation)
    return document.problem(
        place.path,
        "must be one of the allowed words" + _misread(found, place, document),
        found=document.as_written(place.path, found),
        allowed=", ".join(words),
        nearest=nearest(found, words),
    )


def _read_otherwise(found: Any, place: Place, document: Written) -> str:
    """What YAML 1.1 made of digits it takes for hexadecimal, octal or base 60, where they are no value."""
    written = document.as_written(place.path, found)
    if isinstance(found, bool) or not isinstance(found, int | float) or _PLAIN_NUMBER.fullmatch(written):
        return ""
    return f"YAML reads a bare {written} as the number {found}: write what is meant, in quotes"


def _misread(found: Any, place: Place, document: Written) -> str:
    """What YAML 1.1 made of a bare word or digits where text belongs."""
    options = alternatives(place.annotation)
    if str not in options and not _choices(place.annotation):
        return ""
    if int in options and not isinstance(found, bool):  # a number may stand there, if not this one
        return ""
    written = document.as_written(place.path, found)
    if isinstance(found, bool):
        mend = "" if _choices(place.annotation) else ": write it in quotes"
        return f"; YAML reads a bare `{written}` as the boolean {str(found).lower()}{mend}"
    if isinstance(found, int | float):
        return f'; YAML reads {written} as a number: write "{written}"'
    return ""


def _choices(annotation: Any) -> tuple[str, ...]:
    return tuple(
        str(word)
        for option in alternatives(annotation)
        for word in (
            get_args(option)
            if get_origin(option) is Literal
            else [member.value for member in option]
            if isinstance(option, type) and issubclass(option, Enum)
            else ()
        )
    )

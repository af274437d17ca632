"""A YAML file read with its marks, so that every problem names file, line and column.

Only YAML's safe scalars, lists and maps are read: no tags that build objects, no merge keys, no key twice,
no key that is not text, and no aliases that grow beyond `MAX_NODES` values. `--set path=value` changes a
value before validation; a path the schema does not have is a problem, never a new key.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from pipelines.blocks import Block, Steps, missing_files
from pipelines.diagnosis import blocks_of, explain, item_of, kinds_of, nearest
from pipelines.errors import ConfigError, Problem
from pipelines.redaction import redacted
from pipelines.yaml_faults import fault_of

MAX_NODES = 20_000
_MAX_SHOWN = 60
_NO_VALUE = (ValueError, OverflowError, LookupError, AttributeError, TypeError)
"""What constructing a scalar raises whose tag its text does not suit."""

Model = TypeVar("Model", bound=Block)


class Document:
    """One configuration file. `data` is what it says; `file` and `directory` are where it is."""

    def __init__(self, text: str, *, file: str = "", directory: Path | None = None) -> None:
        self.file = file
        self.directory = (directory or Path()).absolute()
        self._keys: dict[Steps, yaml.Node] = {}
        self._values: dict[Steps, yaml.Node] = {}
        self._overridden: dict[Steps, str] = {}
        self._problems: list[Problem] = []
        self._count = 0
        self.data: dict[str, Any] = self._parse(text)

    @classmethod
    def read(cls, path: Path | str) -> "Document":
        """The document in a file. Raises ConfigError when it cannot be read or is no YAML mapping."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(Problem(error.strerror or "cannot be read", file=str(path))) from error
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            raise ConfigError(
                Problem("is no UTF-8 text; save it as UTF-8", file=str(path), line=line, column=1)
            ) from error
        return cls(text, file=str(path), directory=path.parent)

    def override(self, assignments: Sequence[str], model: type[Block]) -> None:
        """Apply `path=value` assignments, values in YAML. Raises ConfigError with every wrong one."""
        problems: list[Problem] = []
        for assignment in assignments:
            try:
                self._override_one(assignment, model)
            except ConfigError as error:
                problems.extend(error.problems)
        if problems:
            raise ConfigError(*problems)

    def validate(self, model: type[Model]) -> Model:
        """The data as `model`. Raises ConfigError with every problem there is."""
        if "version" in model.model_fields and (problem := self._version_problem()):
            raise ConfigError(problem)
        try:
            return model.model_validate(self.data, context={"directory": self.directory})
        except ValidationError as error:
            raise ConfigError(*explain(error, model, self)) from None

    def check_files(self, config: Block) -> None:
        """Raises ConfigError naming every file `config` reads that does not exist."""
        problems = [self.problem(path, words) for path, words in missing_files(config)]
        if problems:
            raise ConfigError(*problems)

    def problem(
        self,
        path: Steps,
        message: str,
        *,
        on_key: bool = False,
        found: str = "",
        allowed: str = "",
        nearest: str = "",
    ) -> Problem:
        """A problem at `path`, marked at its value (or its key), else at the nearest thing around it."""
        problem = Problem(
            message, ".".join(map(str, path)), self.file, found=found, allowed=allowed, nearest=nearest
        )
        for length in range(len(path), -1, -1):
            here = path[:length]
            if here in self._overridden:
                return replace(problem, file=f"--set {redacted(self._overridden[here])}")
            inside = length == len(path) and not on_key
            node = self._values.get(here) if inside else self._keys.get(here) or self._values.get(here)
            if node is not None:
                mark = node.start_mark
                return replace(problem, line=mark.line + 1, column=mark.column + 1)
        return problem

    def as_written(self, path: Steps, value: object) -> str:
        """What the file says at `path`, one short line, passwords in URLs blotted out."""
        node = self._values.get(path)
        if isinstance(node, yaml.ScalarNode) and path not in self._overridden:
            text = str(node.value)
        elif path in self._overridden and isinstance(value, int | float):
            text = self._overridden[path].partition("=")[2]
        elif isinstance(value, dict):
            text = "a mapping with " + (", ".join(map(str, value)) or "no keys")
        elif isinstance(value, list):
            text = f"a list of {len(value)}"
        else:
            text = "nothing" if value is None else str(value)
        text = redacted(" ".join(text.split())) or '""'
        return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"

    def _parse(self, text: str) -> dict[str, Any]:
        try:
            loader = yaml.SafeLoader(text)
            try:
                root = loader.get_single_node()
                value = self._value(loader, root, (), ()) if root is not None else {}
            finally:
                loader.dispose()
        except (yaml.MarkedYAMLError, yaml.reader.ReaderError) as error:
            words, line, column = fault_of(error, text)
            message = f"is no valid YAML: {words}"
            raise ConfigError(Problem(message, file=self.file, line=line, column=column)) from error
        except RecursionError as error:
            words = "lists or mappings lie too deep inside each other; is a bracket left open?"
            raise ConfigError(Problem(f"is no valid YAML: {words}", file=self.file)) from error
        except (yaml.YAMLError, ValueError, OverflowError) as error:  # of an escape like \U00110000, too
            first = str(error).splitlines()[0]
            raise ConfigError(Problem(f"is no valid YAML: {first}", file=self.file)) from error
        if self._problems:
            raise ConfigError(*self._problems)
        if not isinstance(value, dict):
            raise ConfigError(Problem("must be a mapping of `key: value` lines", "", self.file, 1, 1))
        return value

    def _value(
        self, loader: yaml.SafeLoader, node: yaml.Node, path: Steps, around: tuple[yaml.Node, ...]
    ) -> Any:
        self._values[path] = node
        self._count += 1
        if self._count > MAX_NODES or node in around:
            raise yaml.MarkedYAMLError(problem="aliases that grow without end", problem_mark=node.start_mark)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(loader, node, path, (*around, node))
        if isinstance(node, yaml.SequenceNode):
            return [
                self._value(loader, item, (*path, index), (*around, node))
                for index, item in enumerate(node.value)
            ]
        try:
            return loader.construct_object(node)
        except (*_NO_VALUE, yaml.constructor.ConstructorError) as error:
            words = error.problem if isinstance(error, yaml.MarkedYAMLError) else f"it is no {node.tag}"
            self._problems.append(self.problem(path, f"is no value this file may hold: {words}"))
            return None

    def _mapping(
        self, loader: yaml.SafeLoader, node: yaml.MappingNode, path: Steps, around: tuple[yaml.Node, ...]
    ) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
            here = (*path, key)
            complaint = ""
            if key_node.tag == "tag:yaml.org,2002:merge":
                complaint = "merge keys (<<) are not read here; write the keys out"
            elif key_node.tag != "tag:yaml.org,2002:str":
                complaint = f'YAML does not read this key as text; write "{key}" in quotes'
            elif key in result:
                complaint = f"key given twice; the first is on line {self._keys[here].start_mark.line + 1}"
            if complaint:
                mark = key_node.start_mark
                dotted = ".".join(map(str, here))
                self._problems.append(Problem(complaint, dotted, self.file, mark.line + 1, mark.column + 1))
                continue
            self._keys[here] = key_node
            result[key] = self._value(loader, value_node, here, around)
        return result

    def _version_problem(self) -> Problem | None:
        version = self.data.get("version")
        if version == 1 and not isinstance(version, bool):
            return None
        if version is None:
            return self.problem(("version",), "is missing; write `version: 1` at the top")
        if isinstance(version, str) and version.strip() == "1":
            return self.problem(("version",), "is text here; write `version: 1`, without quotes")
        return self.problem(
            ("version",),
            "this nearfar reads version 1; install the nearfar this file was written for, "
            "or rewrite the file after `nearfar schema`",
            found=self.as_written(("version",), version),
            allowed="1",
        )

    def _override_one(self, assignment: str, model: type[Block]) -> None:
        dotted, equals, text = assignment.partition("=")
        where = f"--set {redacted(assignment)}"
        if not equals or not dotted:
            raise ConfigError(Problem("must be path=value, like deadline=80ms", file=where))
        value = _value_of(text, where)
        steps: list[str | int] = []
        annotation: Any = model
        current: Any = self.data
        names = dotted.split(".")
        for depth, name in enumerate(names):
            step: str | int = int(name) if isinstance(current, list) and name.isdecimal() else name
            annotation, fault = _descend(annotation, current, step, last=depth == len(names) - 1)
            if fault is not None:
                close = ".".join([*map(str, steps), fault.nearest]) if fault.nearest else ""
                raise ConfigError(
                    Problem(fault.message, dotted, where, found=name, allowed=fault.allowed, nearest=close)
                )
            steps.append(step)
            if depth == len(names) - 1:
                _put(current, step, value)
            else:
                below = current.get(step) if isinstance(current, dict) else _at(current, step)
                if not isinstance(below, dict | list):
                    below = [] if item_of(annotation, tuple) is not None else {}
                    _put(current, step, below)
                current = below
        self._overridden[tuple(steps)] = assignment


def _value_of(text: str, where: str) -> Any:
    return Document(f"value: {text}", file=where).data["value"]


def _at(items: list[Any], step: str | int) -> Any:
    return items[step] if isinstance(step, int) and step < len(items) else None


def _put(container: Any, step: str | int, value: Any) -> None:
    if isinstance(container, list) and step == len(container):
        container.append(value)
    else:
        container[step] = value


def _descend(annotation: Any, current: Any, step: str | int, *, last: bool) -> tuple[Any, Problem | None]:
    """The type below `step`, or what is wrong with taking it."""
    if annotation is None:  # below a key that is not built: validation has the sentence
        return None, None
    if blocks := blocks_of(annotation):
        kind = current.get("kind") if isinstance(current, dict) else None
        blocks = tuple(b for b in blocks if kind in kinds_of(b)) or blocks
        for block in blocks:
            if step in block.model_fields:
                return block.model_fields[str(step)].annotation, None
        if any(step in block.not_built for block in blocks):
            return None, None
        fields = tuple(name for block in blocks for name in block.model_fields)
        return None, Problem("no such path", allowed=", ".join(fields), nearest=nearest(step, fields))
    if (item := item_of(annotation, dict)) is not None:
        if step in current or last:
            return item, None
        names = tuple(map(str, current))
        return None, Problem("no such name", allowed=", ".join(names), nearest=nearest(step, names))
    if (item := item_of(annotation, tuple)) is not None:
        if isinstance(current, list) and isinstance(step, int) and step <= len(current):
            return item, None
        count = len(current) if isinstance(current, list) else 0
        return None, Problem("lists are indexed from 0", allowed=f"0 to {count}")
    return None, Problem("no such path: there is a single value above it")

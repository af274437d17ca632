"""Kinds: the words of a configuration and the code behind each, resolved only when it is used.

A family (detector, codec, source, …) maps a kind to its configuration model and to `module:Name`. Naming a
kind imports nothing, so `check`, `schema`, `list` and `--help` run without cv2, onnxruntime or zmq. A floor
registers only its own kinds, each family in the `kinds` module of its package.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pipelines.blocks import Block
from pipelines.errors import ConfigError, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind. `target` is `module:Name`; `needs` are modules outside the core, brought by `extra`."""

    name: str
    config: type[Block]
    target: str
    words: str
    extra: str = ""
    needs: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """Modules it needs that are not installed."""
        return tuple(module for module in self.needs if find_spec(module) is None)

    def resolve(self) -> Any:
        """The class (or function) behind the kind.

        Raises ConfigError, with the command that mends it, when an extra is not installed.
        """
        if self.missing:
            raise ConfigError(
                f"{self.name} needs {', '.join(self.missing)}, which is not installed; "
                f"run: pip install 'nearfar[{self.extra}]'"
            )
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)


class Family:
    """The kinds one place of a configuration accepts, by name."""

    def __init__(self, name: str, *kinds: Kind) -> None:
        self.name = name
        self._kinds = {kind.name: kind for kind in kinds}

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def __repr__(self) -> str:
        return f"<Family {self.name}: {', '.join(self._kinds)}>"

    def __getitem__(self, name: str) -> Kind:
        """The kind called `name`. Raises ConfigError naming what there is."""
        if name in self._kinds:
            return self._kinds[name]
        raise ConfigError(
            Problem(
                f"no such {self.name}",
                found=name,
                allowed=", ".join(self._kinds),
                nearest=next(iter(get_close_matches(name, self._kinds, n=1)), ""),
            )
        )

    def build(self, config: Any) -> Any:
        """An instance of the kind `config.kind`, made by its class's `from_config`."""
        return self[config.kind].resolve().from_config(config)

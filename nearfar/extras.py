"""What a command needs beyond the core, asked for before anything is imported that would fail in a traceback."""

from importlib.util import find_spec

from pipelines.errors import ConfigError

CLOUD = ("sqlalchemy", "prometheus_client")


def must_have(extra: str, modules: tuple[str, ...], *, who: str) -> None:
    """Raises ConfigError, with the command that mends it, when one of the `modules` that `extra` brings is not installed."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise ConfigError(f"{who} needs {' and '.join(missing)}; run: pip install 'nearfar[{extra}]'")

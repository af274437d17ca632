"""What an agent's `/readyz` and `/metrics` say, from before it is built until it has ended."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from nearfar import __version__
from pipelines.errors import ConfigError, Problem

if TYPE_CHECKING:
    from edge.agent import Agent
    from edge.config.pipeline import PipelineConfig

METRICS_NEED = "prometheus_client"


def need_metrics(config: "PipelineConfig", file: Path) -> None:
    """Raises ConfigError when `config` has an `http` block and the extra behind it is not installed."""
    if config.http is not None and find_spec(METRICS_NEED) is None:
        words = f"needs {METRICS_NEED}; run: pip install 'nearfar[metrics]', or leave http out"
        raise ConfigError(Problem(words, "http", str(file)))


class AgentPage:
    """Raises ConfigError when `config` asks for a page and the extra `metrics` is not installed."""

    def __init__(self, config: "PipelineConfig", file: Path) -> None:
        need_metrics(config, file)
        self._config = config
        self._agent: Agent | None = None
        self._text: Callable[[], bytes] = bytes

    def shows(self, agent: "Agent") -> None:
        """From now on the page is about `agent`."""
        self._agent = agent
        if self._config.http is None:
            return
        from edge.telemetry.metrics import AgentMetrics  # noqa: PLC0415 - an extra

        self._text = AgentMetrics(
            agent.vitals,
            agent=agent.identity.agent,
            run=agent.identity.run.hex(),
            policy=self._config.scheduler.policy,
            version=__version__,
            deadline_us=self._config.deadline,
            outbox_max_bytes=self._config.outbox.max_bytes,
        ).text

    def not_ready(self) -> list[str]:
        return ["it is starting"] if self._agent is None else self._agent.not_ready()

    def degraded(self) -> list[str]:
        return [] if self._agent is None else self._agent.degraded()

    def metrics(self) -> bytes:
        return self._text()

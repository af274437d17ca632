"""What the workers behind the links of one agent must have in common: one record store, and one far model at a time.

Acknowledgements are believed whichever link brings them, so every worker must write into the store of the first; for
the life of the agent. Which model answers must not depend on which link was quicker: a worker whose model has another
name than those in use is refused. Another file under the same name (a worker is being upgraded) is taken and said:
each answer names its own.
"""

import logging

from protos.wire.session import ModelInfo, Welcome

log = logging.getLogger(__name__)


class Accord:
    """Owned by the dispatcher thread. Objections are in words, empty where there is none."""

    def __init__(self) -> None:
        # Of the first worker that welcomed us: what it acked is in there and nowhere else.
        self._store_id = ""
        self._models: dict[str, ModelInfo] = {}  # by link, of those that are connected
        self._input_px = (0, 0)
        self._said: set[str] = set()

    def about_store(self, welcome: Welcome) -> str:
        """Why the worker that welcomed us, on whatever lane, cannot be relied on."""
        if welcome.store_id == (self._store_id or welcome.store_id):
            return ""
        return (
            f"this worker keeps its records in store {welcome.store_id}, the first one in "
            f"{self._store_id}: give all workers of this agent one store.url, or start the agent anew"
        )

    def relies_on(self, welcome: Welcome) -> None:
        """The worker is used, on whatever lane: its store is the one, from now on."""
        self._store_id = self._store_id or welcome.store_id

    def about_model(self, link: str, model: ModelInfo) -> str:
        """Why answers of `model` cannot stand beside those of the other links."""
        for other, used in self._models.items():
            if other != link and used.name != model.name:
                return (
                    f"this worker answers with the model {model.name}, link {other} with {used.name}: "
                    "name the one you want in far.model, or give both workers one default_model"
                )
        return ""

    def joined(self, link: str, model: ModelInfo) -> None:
        """The worker behind `link` is relied on, with this model."""
        self._models[link] = model
        self._measure()
        for other, used in self._models.items():
            if used.sha256 != model.sha256:
                self._say_once(
                    f"links {link} and {other} lead to different files of the model {model.name} "
                    f"({model.sha256[:12]} and {used.sha256[:12]}): each answer names its own"
                )

    def left(self, link: str) -> None:
        """No connection of `link` is left."""
        self._models.pop(link, None)
        self._measure()

    @property
    def input_px(self) -> tuple[int, int]:
        """(width_px, height_px) that pictures are made for: the largest input of the workers at hand, for one payload
        may go over several links, and fewer pixels than its input would cost the larger model accuracy. While none is,
        it is that of the last one; (0, 0) before the first."""
        return self._input_px

    def _measure(self) -> None:
        inputs = [(model.input_width_px, model.input_height_px) for model in self._models.values()]
        self._input_px = max(inputs, key=lambda px: px[0] * px[1], default=self._input_px)

    def _say_once(self, words: str) -> None:
        if words not in self._said:
            self._said.add(words)
            log.warning("%s", words)

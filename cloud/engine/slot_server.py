"""Inside an engine process: one thread for each detector it holds, which loads it when told and runs it on what comes.

A run that fails is answered with its error, and the thread goes on; only the end of the process ends more than one run.
"""

import logging
import threading
from collections.abc import Callable

import numpy as np

from cloud.engine.channel import Channel, ChannelClosedError
from cloud.engine.memory import SharedMemory
from cloud.engine.messages import (
    Loaded,
    MalformedMessageError,
    Message,
    Say,
    pack_error,
    pack_found,
    pack_loaded,
    read_places,
)
from cloud.engine.recipe import Recipe
from pipelines.detectors.base import Cancelled, CancelToken, Detector
from pipelines.errors import Fatal, Rejected
from pipelines.result import Detections

log = logging.getLogger(__name__)


class RunningNow:
    """Which run of a slot can be cancelled. A cancel may be faster than its run: what comes then is over at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._run = 0
        self._token: CancelToken | None = None
        self._cancelled = 0

    def begin(self, run: int) -> CancelToken:
        token = CancelToken()
        with self._lock:
            self._run, self._token = run, token
            over = run == self._cancelled
        if over:
            token.cancel()
        return token

    def end(self) -> None:
        with self._lock:
            self._token = None

    def cancel(self, run: int) -> None:
        with self._lock:
            self._cancelled = run
            token = self._token if self._run == run else None
        if token is not None:
            token.cancel()


class SlotServer:
    """One detector. `loaded` is called each time it can be used."""

    def __init__(
        self, recipe: Recipe, *, channel: Channel, memory: SharedMemory, loaded: Callable[[], None]
    ) -> None:
        self._recipe = recipe
        self._channel = channel
        self._memory = memory
        self._loaded = loaded
        self._detector: Detector | None = None
        self.running = RunningNow()

    def serve(self) -> None:
        """Until the front hangs up. Raises MalformedMessageError."""
        try:
            while True:
                message = self._channel.receive()
                if message.say is Say.LOAD:
                    answer = self._load()
                elif message.say is Say.RUN:
                    answer = self._run(message)
                else:
                    raise MalformedMessageError(f"a slot is not told to {message.say.name}")
                self._channel.send(answer)
        except ChannelClosedError:
            return

    def _load(self) -> Message:
        self._detector = None  # a broken one gives its memory back before the next is made
        try:
            detector = self._recipe.make()
            width_px, height_px = detector.input_size
            if self._recipe.warm_up:
                try:
                    detector.detect(np.zeros((height_px, width_px, 3), np.uint8))
                except Fatal as error:
                    raise Fatal(f"it fails on an empty picture: {error}") from error
            loaded = pack_loaded(_said_by(detector))
        except Exception as error:
            log.debug("model %s could not be loaded", self._recipe.model, exc_info=True)
            return Message(Say.FAILED, 0, pack_error(error))
        self._detector = detector
        self._loaded()
        return Message(Say.READY, 0, loaded)

    def _run(self, message: Message) -> Message:
        try:
            body = pack_found(self._detect(self._detector, message))
        except MalformedMessageError:
            raise
        except Exception as error:
            if not isinstance(error, Rejected):
                log.debug("a run of model %s failed", self._recipe.model, exc_info=True)
            return Message(Say.FAILED, message.run, pack_error(error))
        return Message(Say.FOUND, message.run, body)

    def _detect(self, detector: Detector | None, message: Message) -> list[Detections]:
        if detector is None:
            raise Fatal("its model is not loaded")
        pictures = [self._memory.look(place) for place in read_places(message.body)]
        cancel = self.running.begin(message.run)
        try:
            if len(pictures) > 1 and getattr(detector, "max_batch", 1) > 1:
                if cancel.cancelled:
                    raise Cancelled("cancelled before the run")
                found: list[Detections] = detector.detect_batch(pictures)  # type: ignore[attr-defined]
                return found
            return [detector.detect(picture, cancel) for picture in pictures]
        finally:
            self.running.end()


def _said_by(detector: Detector) -> Loaded:
    return Loaded(
        name=detector.name,
        labels=detector.labels,
        input_size=detector.input_size,
        sha256=detector.sha256,
        max_batch=max(1, getattr(detector, "max_batch", 1)),
        batch_limit=str(getattr(detector, "batch_limit", "")),
    )

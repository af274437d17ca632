"""A detector whose model lives in an engine process: the front's instance, as good as one of its own.

A run ends with its engine: whoever waits is told within milliseconds that it crashed, and after the patience of its
model that it hangs, which ends it. Then the run is Fatal and this detector is over; a new one is built for its place.
"""

from collections.abc import Callable, Sequence
from itertools import count

from cloud.engine.channel import ChannelClosedError, ChannelTimeoutError
from cloud.engine.messages import (
    Loaded,
    MalformedMessageError,
    Message,
    Say,
    pack_places,
    read_error,
    read_found,
)
from cloud.engine.patience import Patience
from cloud.engine.process import EngineProcess, Slot
from pipelines.detectors.base import Cancelled, CancelToken
from pipelines.errors import Fatal, NearfarError, Rejected
from pipelines.frame import Picture
from pipelines.result import Detections
from pipelines.units import format_duration


class EngineDetector:
    """`newer` gives the engine that took the place of `process`, None while there is none. `over` is called once,
    when it broke."""

    def __init__(
        self,
        *,
        process: EngineProcess,
        slot: int,
        loaded: Loaded,
        patience: Patience,
        newer: Callable[[], EngineProcess | None],
        over: Callable[[], None],
        clock_us: Callable[[], int],
    ) -> None:
        self._process = process
        self._number = slot
        self._loaded = loaded
        self._patience = patience
        self._newer = newer
        self._over = over
        self._clock_us = clock_us
        self._runs = count(1)
        self._broken = ""

    @property
    def name(self) -> str:
        return self._loaded.name

    @property
    def labels(self) -> tuple[str, ...]:
        return self._loaded.labels

    @property
    def input_size(self) -> tuple[int, int]:
        return self._loaded.input_size

    @property
    def sha256(self) -> str:
        return self._loaded.sha256

    @property
    def max_batch(self) -> int:
        """Pictures its model takes in one run."""
        return self._loaded.max_batch

    @property
    def batch_limit(self) -> str:
        """Why it takes no more, in words."""
        return self._loaded.batch_limit or f"{self.name} takes {self.max_batch} at most"

    @property
    def pid(self) -> int:
        """Of the engine it runs in."""
        return self._process.pid

    def detect(self, picture: Picture, cancel: CancelToken | None = None) -> Detections:
        """Boxes in pixels of `picture`, best score first. Raises as `Detector.detect` says."""
        return self.detect_batch([picture], cancel)[0]

    def detect_batch(
        self, pictures: Sequence[Picture], cancel: CancelToken | None = None
    ) -> list[Detections]:
        """The same for each of them, in as few runs as the shared memory allows. Raises as `detect`, for all of them:
        an error that left the engine alive may be due to one picture, so this detector can still be asked for each
        alone."""
        out: list[Detections] = []
        while len(out) < len(pictures):
            rest = pictures[len(out) :]
            slot = self._slot()
            out += self._run(slot, rest[: slot.memory.fits(rest)], cancel)
        return out

    def _slot(self) -> Slot:
        """Where to run. An engine that ended while nothing ran in it costs nothing if the next one is ready."""
        if self._broken:
            raise Fatal(self._broken)
        if self._process.gone.is_set():
            newer = self._newer()
            if newer is None or not newer.slots[self._number].is_loaded():
                raise self._break(f"engine {self._process.number} {self._process.cause()}; it starts again")
            if newer.slots[self._number].loaded != self._loaded:
                raise self._break("its model file is another one than before")
            self._process = newer
        return self._process.slots[self._number]

    def _run(self, slot: Slot, pictures: Sequence[Picture], cancel: CancelToken | None) -> list[Detections]:
        run, process = next(self._runs), self._process
        if cancel is not None:
            if cancel.cancelled:
                raise Cancelled("cancelled before the run")
            cancel.on_cancel(lambda: process.cancel(self._number, run))
        limit_us = self._patience.limit_us
        with slot.using:
            if process.gone.is_set():  # in this very moment: its memory may be given back
                raise self._break(f"engine {process.number} {process.cause()}; it starts again")
            places = pack_places(slot.memory.put(pictures))
            begun_us = self._clock_us()
            try:
                slot.channel.send(Message(Say.RUN, run, places))
                answer = slot.channel.receive(limit_us / 1e6)
                found = _found(answer, run, self.labels, pictures=len(pictures))
            except ChannelTimeoutError:
                words = f"gave no answer within {format_duration(limit_us)} and was killed"
                process.kill(words)
                raise self._break(f"engine {process.number} {words}") from None
            except ChannelClosedError:
                process.gone.set()  # we may be the first to know
                raise self._break(f"engine {process.number} {process.cause()}") from None
            except MalformedMessageError as error:
                process.kill(f"said what no engine says, and was killed: {error}")
                raise self._break(f"engine {process.number}: {error}") from error
            except (Rejected, Cancelled):
                raise
            except NearfarError as error:
                if len(pictures) > 1:
                    raise
                slot.loaded = None  # the engine lives, its model is loaded again
                raise self._break(str(error)) from error
        self._patience.observe(self._clock_us() - begun_us)
        return found

    def _break(self, words: str) -> Fatal:
        self._broken = words
        self._over()
        return Fatal(words)


def _found(answer: Message, run: int, labels: tuple[str, ...], *, pictures: int) -> list[Detections]:
    """The results of `run`. Raises the error of a run that failed, MalformedMessageError for another answer."""
    if answer.run != run or answer.say not in (Say.FOUND, Say.FAILED):
        raise MalformedMessageError(f"run {run} is answered with {answer.say.name} of run {answer.run}")
    if answer.say is Say.FAILED:
        raise read_error(answer.body)
    return read_found(answer.body, labels, pictures=pictures)

"""The engine processes of a worker, as those see it who build detectors and who ask how it goes.

    thread of an instance ─→ EngineDetector ─→ channel + shared memory ─→ engine process, one thread a detector
    thread of the keeper  ─→ starts every process, hears the end of each at once, waits out its delay

Each engine holds every model; which engine a detector runs in is decided by which place is free. An engine that ends
takes only its own runs with it.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cloud.engine.channel import ChannelClosedError, ChannelTimeoutError
from cloud.engine.detector import EngineDetector
from cloud.engine.keeper import Keeper
from cloud.engine.messages import Loaded, MalformedMessageError
from cloud.engine.patience import Patience
from cloud.engine.process import EngineProcess
from cloud.engine.recipe import Recipe
from cloud.engine.seat import Condition, EngineState
from pipelines.errors import ConfigError, Fatal, NearfarError
from pipelines.runtime import monotonic_us
from pipelines.units import format_duration

START_WITHIN_US = 120_000_000


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one detector lives: its slot on its engine."""

    engine: int
    slot: int


class Engines:
    """`recipes`: the models each of `processes` engines holds. `memory_bytes`: room for the pictures of one run.
    `hang_after_us` None: derived. `threads`: what OpenCV may use in each. Thread-safe."""

    def __init__(
        self,
        recipes: Sequence[Recipe],
        *,
        processes: int,
        memory_bytes: int,
        threads: int = 1,
        hang_after_us: int | None = None,
        start_within_us: int = START_WITHIN_US,
        clock_us: Callable[[], int] = monotonic_us,
    ) -> None:
        self._start_within_us = start_within_us
        self._clock_us = clock_us
        self._keeper = Keeper(
            tuple(recipes), processes=processes, memory_bytes=memory_bytes, threads=threads, clock_us=clock_us
        )
        self._patience = {
            recipe.model: Patience(fixed_us=hang_after_us, first_us=start_within_us) for recipe in recipes
        }
        self._lock = threading.Lock()
        self._free = _places(recipes, processes)
        self._known: dict[str, str] = {}
        self._unloaded: dict[_Place, str] = {}

    def start(self) -> None:
        """Start every engine; they load side by side."""
        self._keeper.start()

    def stop(self) -> None:
        """End every engine, within a second; whoever waits for one is told. Idempotent."""
        self._keeper.stop()

    def build(self, model: str) -> EngineDetector:
        """The detector of a free place of `model`, once it is loaded there; waits for an engine that starts again.

        Raises what loading it raises, Fatal when the engine ended over it or cannot be started, Retryable when
        engines are being stopped.
        """
        place = self._claim(model)
        try:
            process = self._keeper.wait_running(place.engine)
            try:
                loaded = self._loaded(process, place.slot, model)
            except NearfarError as error:
                self._note(place, "" if process.gone.is_set() else f"cannot load model {model}: {error}")
                raise
        except BaseException:
            self._give_back(model, place)
            raise
        self._note(place, "")
        return EngineDetector(
            process=process,
            slot=place.slot,
            loaded=loaded,
            patience=self._patience[model],
            newer=lambda: self._keeper.running(place.engine),
            over=lambda: self._give_back(model, place),
            clock_us=self._clock_us,
        )

    def states(self) -> list[EngineState]:
        return self._keeper.states()

    def pids(self) -> list[int]:
        """Of the engines, in their order; 0 for one that does not run now."""
        return [state.pid for state in self.states()]

    def trouble(self) -> list[str]:
        """In words, each engine that does not work now, or not with every model. Every model still does while another
        engine holds it."""
        return [f"engine {state.engine} {words}" for state in self.states() if (words := self._words(state))]

    def _words(self, state: EngineState) -> str:
        with self._lock:  # what keeps a model from being loaded says more than why its engine once ended
            unloaded = {words for place, words in self._unloaded.items() if place.engine == state.engine}
        ended = state.condition is Condition.ENDED
        return state.words if ended or not unloaded else "; ".join(sorted(unloaded))

    def _note(self, place: _Place, words: str) -> None:
        with self._lock:
            if words:
                self._unloaded[place] = words
            else:
                self._unloaded.pop(place, None)

    def _claim(self, model: str) -> _Place:
        with self._lock:
            if not self._free[model]:
                raise Fatal(f"model {model}: every place of its engines is taken")
            return self._free[model].pop(0)

    def _give_back(self, model: str, place: _Place) -> None:
        with self._lock:
            self._free[model].append(place)

    def _loaded(self, process: EngineProcess, slot: int, model: str) -> Loaded:
        try:
            loaded = process.slots[slot].wait_loaded(self._start_within_us / 1e6)
        except ChannelClosedError:
            process.gone.set()
            raise Fatal(
                f"engine {process.number} {process.cause()} while it was loading model {model}"
            ) from None
        except ChannelTimeoutError:
            words = f"did not load model {model} within {format_duration(self._start_within_us)}"
            process.kill(f"{words} and was killed")
            raise Fatal(f"engine {process.number} {words}") from None
        except MalformedMessageError as error:
            process.kill(f"said what no engine says, and was killed: {error}")
            raise
        with self._lock:
            known = self._known.setdefault(model, loaded.sha256)
        if known != loaded.sha256:
            process.slots[slot].loaded = None  # looked at again the next time
            raise ConfigError(
                f"models.{model}: the file has sha256 {loaded.sha256}, and had {known} when this worker started; "
                "put that file back, or restart the worker"
            )
        return loaded


def _places(recipes: Sequence[Recipe], processes: int) -> dict[str, list[_Place]]:
    """Of each model, one engine after the other, so that the first instances lie in different ones."""
    out: dict[str, list[_Place]] = {}
    first = 0
    for recipe in recipes:
        out[recipe.model] = [
            _Place(engine, first + i) for i in range(recipe.instances) for engine in range(processes)
        ]
        first += recipe.instances
    return out

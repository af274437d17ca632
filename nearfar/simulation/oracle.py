"""What could have been had with the future known: link, service times and pictures.

`oracle`: the best of all choices. Frames in the order of their deadlines, each answered near, at one rung, or not at
all; a state is (bytes served on the link, worker free, near free) with what was won so far. States that are
nowhere better than another are dropped, so what is left is exact. Ratios of sums are maximised by Dinkelbach's
iteration (1967): maximise Σ hits − λ · Σ weight, then λ = Σ hits / Σ weight, until λ stands.
`greedy`: the same with one state, the best answer for each frame as if it were the last.

Both are bounds, so they are given what no policy has: no handshakes, pings or in-order waits, no congestion
window, no queue limit, an outage costs only what falls into it. A lost packet delays them like anyone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edge.scheduling.key import Key
from nearfar.simulation.accuracies import Accuracies
from nearfar.simulation.dice import Purpose
from nearfar.simulation.far_side import HEAD_BYTES, RESULT_BYTES
from nearfar.simulation.link.capacity import NEVER_US
from nearfar.simulation.link.packet_loss import SEGMENT_BYTES, packets_lost, repair_us
from nearfar.simulation.outcome import FrameEnd, Outcome
from nearfar.simulation.scenario import Scenario, World
from pipelines.result import AnsweredBy

NEAR, MISSED = -1, -2
MOST_STATES = 64
ROUNDS = 4


@dataclass(frozen=True, slots=True)
class State:
    """What is left behind by a row of choices; `won` = Σ hits − λ · weight. `chosen` is the last one."""

    served: float
    worker_us: int
    near_us: int
    won: float
    sent_bytes: int
    chosen: int = MISSED
    released_us: int = 0
    before: "State | None" = None


class Oracle:
    """Over the one link of the scenario. `margin_us`: how long before the deadline an answer is out.

    `most_states`: how many states are kept after each frame; 1 = greedy. ValueError for several links.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        margin_us: int = 0,
        most_states: int = MOST_STATES,
        knows_pictures: bool = True,
    ) -> None:
        if len(scenario.links) != 1:
            raise ValueError("the oracle knows one link")
        self._world = World(scenario)
        self._accuracies: Accuracies = scenario.accuracies
        self._trace = scenario.links[0]
        self._deadline_us = scenario.deadline_us - margin_us
        self._most_states = most_states
        self._knows_pictures = knows_pictures
        self._keys = sorted(
            ((name, seq) for name in scenario.streams for seq in range(1, scenario.frames + 1)),
            key=self._world.captured_us,
        )

    def best(self) -> Outcome:
        """The choices of the best row of states, as an outcome."""
        ratio = self._accuracies.near.f1
        last = self._search(ratio)
        for _ in range(ROUNDS - 1 if self._knows_pictures else 0):
            reached = self._ratio(last)
            if reached <= ratio + 1e-9:
                break
            ratio = reached
            last = self._search(ratio)
        return self._outcome(last)

    # -- inside -------------------------------------------------------------------------------------------

    def _search(self, ratio: float) -> State:
        states = [State(0.0, 0, 0, 0.0, 0)]
        offered = self._trace.up.capacity.offered
        for key, after in zip(self._keys, [*self._keys[1:], self._keys[-1]], strict=True):
            following = [new for state in states for new in self._answers(key, state, ratio)]
            # What is over before the next frame is there hinders nobody.
            next_us = self._world.captured_us(after)
            states = _undominated(following, offered(next_us), next_us, self._most_states)
        return max(states, key=lambda s: (s.won, -s.sent_bytes))

    def _answers(self, key: Key, state: State, ratio: float) -> Iterator[State]:
        world = self._world
        picture = world.picture(key)
        captured_us = world.captured_us(key)
        end_us = captured_us + self._deadline_us
        yield State(
            state.served,
            state.worker_us,
            state.near_us,
            state.won + self._gain(MISSED, picture, ratio),
            state.sent_bytes,
            MISSED,
            0,
            state,
        )
        near_us = max(captured_us, state.near_us) + world.near_us(key)
        if near_us <= end_us:
            yield State(
                state.served,
                state.worker_us,
                near_us,
                state.won + self._gain(NEAR, picture, ratio),
                state.sent_bytes,
                NEAR,
                near_us,
                state,
            )
        for rung in range(len(self._accuracies.ladder)):
            far = self._far(key, rung, state)
            if far is None or far[2] > end_us:
                continue
            served, worker_us, back_us = far
            yield State(
                served,
                worker_us,
                state.near_us,
                state.won + self._gain(rung, picture, ratio),
                state.sent_bytes + world.size_bytes(key, rung) + HEAD_BYTES,
                rung,
                back_us,
                state,
            )

    def _far(self, key: Key, rung: int, state: State) -> tuple[float, int, int] | None:
        """(served, worker free, answer back) of sending `key` at `rung` after `state`; None if it is lost."""
        world, up, down = self._world, self._trace.up, self._trace.down
        size_bytes = world.size_bytes(key, rung)
        start_us = world.captured_us(key) + world.encode_us(key, rung)
        share = up.loss.at(start_us)
        number = world.number(key)
        lost = packets_lost(
            size_bytes,
            world.dice,
            share=share,
            burst=up.burst_packets,
            purpose=Purpose.FRAME_LOST,
            number=number,
        )
        served = max(state.served, up.capacity.offered(start_us)) + HEAD_BYTES + size_bytes
        served += lost * SEGMENT_BYTES
        left_us = max(start_us, up.capacity.reached_us(served))
        if left_us >= NEVER_US or up.outage.at(left_us) > 0:
            return None
        there_us = left_us + int(up.delay_us.at(left_us)) + self._jitter_us(Purpose.JITTER_UP, left_us)
        if lost:
            there_us += repair_us(
                size_bytes,
                world.dice,
                rtt_us=self._trace.rtt_us(start_us),
                share=share,
                purpose=Purpose.FRAME_LOST,
                number=number,
            )
        worker_us = max(there_us, state.worker_us) + world.worker_us(key)
        back_us = down.capacity.reached_us(down.capacity.offered(worker_us) + RESULT_BYTES)
        if back_us >= NEVER_US or down.outage.at(back_us) > 0:
            return None
        back_us = max(worker_us, back_us)
        back_us += int(down.delay_us.at(back_us)) + self._jitter_us(Purpose.JITTER_DOWN, back_us)
        return served, worker_us, back_us

    def _jitter_us(self, purpose: Purpose, at_us: int) -> int:
        direction = self._trace.up if purpose is Purpose.JITTER_UP else self._trace.down
        spread_us = direction.jitter_us.at(at_us)
        return int(spread_us * self._world.dice.normal(purpose, at_us // 10_000)) if spread_us else 0

    def _gain(self, chosen: int, picture: int, ratio: float) -> float:
        if not self._knows_pictures:
            return self._expected(chosen)
        hits, weight = self._score(chosen, picture)
        return hits - ratio * weight

    def _expected(self, chosen: int) -> float:
        if chosen == MISSED:
            return 0.0
        scores = self._accuracies.near if chosen == NEAR else self._accuracies.rungs[chosen]
        return scores.f1

    def _score(self, chosen: int, picture: int) -> tuple[float, float]:
        accuracies = self._accuracies
        scores = {MISSED: accuracies.missed, NEAR: accuracies.near}.get(chosen)
        if scores is None:
            scores = accuracies.rungs[chosen]
        return scores.hits[picture], scores.weight[picture]

    def _ratio(self, last: State) -> float:
        hits = weight = 0.0
        for key, state in zip(self._keys, _row(last), strict=True):
            won, of = self._score(state.chosen, self._world.picture(key))
            hits += won
            weight += of
        return hits / weight if weight else 1.0

    def _outcome(self, last: State) -> Outcome:
        outcome = Outcome(policy="oracle" if self._most_states > 1 else "greedy", up_bytes=last.sent_bytes)
        for key, state in zip(self._keys, _row(last), strict=True):
            by = {NEAR: AnsweredBy.NEAR, MISSED: AnsweredBy.MISSED}.get(state.chosen, AnsweredBy.FAR)
            outcome.ends[key] = FrameEnd(
                key,
                self._world.captured_us(key),
                by,
                state.released_us,
                on_time=by is not AnsweredBy.MISSED,
                rung=max(-1, state.chosen),
            )
            if by is AnsweredBy.NEAR:
                outcome.near_us += self._world.near_us(key)
        return outcome


def _row(last: State) -> list[State]:
    """The states on the way to `last`, without the empty one at the beginning."""
    row: list[State] = []
    state: State | None = last
    while state is not None and state.before is not None:
        row.append(state)
        state = state.before
    return row[::-1]


def _undominated(states: Sequence[State], offered: float, now_us: int, most: int) -> list[State]:
    """States that are better than another in something from `now_us` on, the best first; at most `most`."""
    left = [
        (-s.won, max(s.served, offered), max(s.worker_us, now_us), max(s.near_us, now_us), s.sent_bytes, i)
        for i, s in enumerate(states)
    ]
    left.sort()
    kept: list[tuple[float, float, int, int, int, int]] = []
    for state in left:
        _, served, worker_us, near_us, _, _ = state
        if any(k[1] <= served and k[2] <= worker_us and k[3] <= near_us for k in kept):
            continue
        kept.append(state)
        if len(kept) == most:
            break
    return [states[state[5]] for state in kept]

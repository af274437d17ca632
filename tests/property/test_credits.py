"""Windows under any load: fair, never below one frame, and binding only once they were heard of."""

from collections import deque
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.scheduling.credits import HONOURED_US, Credits, Loan

MODEL = "m"
MOST = 8
AGENTS = tuple("abc")
QUEUES_US = st.sampled_from([0, 10_000, 60_000, 500_000])


@dataclass
class Conforming:
    """An agent that sends no more than the window it has heard of; frames and words take their time, in order."""

    window: int
    out: int = 0
    frames: deque[int] = field(default_factory=deque)  # moments at which frames under way arrive
    # (when heard, window) or (when heard, −1) = a reply
    words: deque[tuple[int, int]] = field(default_factory=deque)
    loans: list[Loan] = field(default_factory=list)


step = st.tuples(
    st.sampled_from(["send", "answer", "ping", "load"]),
    st.sampled_from(AGENTS),
    st.integers(0, 30_000),  # that pass afterwards
    st.integers(0, 400_000),  # that a frame or a word takes
    QUEUES_US,
)


class World:
    """A worker's credits and agents that obey them, at one moment after the other."""

    def __init__(self) -> None:
        self.now_us = 0
        self.queue_us = 0
        self.credits = Credits(frames=MOST, size_bytes=1 << 20, models=(MODEL,))
        self.agents: dict[str, Conforming] = {}
        for name in AGENTS:
            self.credits.reset(name)
            self.agents[name] = Conforming(self.tell(name))

    def tell(self, name: str) -> int:
        window = self.credits.tell(name, MODEL, queue_us=self.queue_us, service_us=5_000, now_us=self.now_us)
        assert 1 <= window <= MOST
        return window

    def pass_time(self) -> None:
        """What is due by now has come, at both ends."""
        for own_name, own in self.agents.items():
            while own.words and own.words[0][0] <= self.now_us:
                _, window = own.words.popleft()
                if window < 0:
                    own.out -= 1
                else:
                    own.window = window
            while own.frames and own.frames[0] <= self.now_us:
                own.frames.popleft()
                loan = self.credits.take(own_name, 1, self.now_us)
                assert loan is not None, f"a frame of {own_name} under a window it was told was refused"
                own.loans.append(loan)
                assert self.credits.in_flight(own_name)[0] == len(own.loans) <= MOST

    def do(self, what: str, name: str, pass_us: int, way_us: int, queue_us: int) -> None:
        own = self.agents[name]
        match what:
            case "send":
                while own.out < own.window:
                    own.out += 1
                    own.frames.append(max(self.now_us + way_us, own.frames[-1] if own.frames else 0))
            case "answer" if own.loans:
                self.credits.give_back(own.loans.pop())
                self.say(own, -1, way_us)
                self.say(own, self.tell(name), way_us)
            case "ping":
                self.say(own, self.tell(name), way_us)
            case "load":
                self.queue_us = queue_us
        self.now_us += pass_us

    def say(self, own: Conforming, word: int, way_us: int) -> None:
        heard_us = max(self.now_us + way_us, own.words[-1][0] if own.words else 0)
        own.words.append((heard_us, word))


@given(st.lists(step, max_size=100))
@settings(max_examples=60, deadline=None)
def test_a_frame_sent_under_an_older_larger_window_is_not_refused_for_it(
    steps: list[tuple[str, str, int, int, int]],
) -> None:
    world = World()
    for what, name, pass_us, way_us, queue_us in steps:
        world.pass_time()
        world.do(what, name, pass_us, way_us, queue_us)


@given(
    st.lists(
        st.tuples(st.sampled_from(["take", "give", "tell"]), QUEUES_US, st.integers(0, 30_000)), max_size=200
    )
)
@settings(max_examples=60, deadline=None)
def test_loans_never_exceed_what_was_granted_plus_what_was_out(steps: list[tuple[str, int, int]]) -> None:
    """Of an agent that asks for more than it may."""
    credits_ = Credits(frames=MOST, size_bytes=1 << 20, models=(MODEL,))
    credits_.reset("greedy")
    now_us, loans, told = 0, list[Loan](), [(0, MOST)]
    for what, queue_us, way_us in steps:
        now_us += way_us
        if what == "tell":
            window = credits_.tell("greedy", MODEL, queue_us=queue_us, service_us=1_000, now_us=now_us)
            told.append((now_us, window))
        elif what == "give" and loans:
            credits_.give_back(loans.pop())
        else:
            out = len(loans)
            loan = credits_.take("greedy", 1, now_us)
            if loan is not None:
                loans.append(loan)
            # a window holds until the next one is told, and HONOURED_US longer
            until = [at for at, _ in told[1:]] + [now_us]
            granted = max(w for (_, w), end in zip(told, until, strict=True) if end >= now_us - HONOURED_US)
            assert len(loans) <= max(granted, out)
            assert credits_.in_flight("greedy") == (len(loans), len(loans))


@given(st.integers(1, 200), st.lists(QUEUES_US, max_size=100))
@settings(max_examples=60, deadline=None)
def test_no_agent_starves_and_all_have_the_same(agents: int, queues: list[int]) -> None:
    credits_ = Credits(frames=MOST, size_bytes=1 << 20, models=(MODEL,))
    names = [str(i) for i in range(agents)]
    for name in names:
        credits_.reset(name)
    now_us = 0
    for queue_us in (*queues, 0):
        now_us += 20_000
        told = {
            credits_.tell(name, MODEL, queue_us=queue_us, service_us=1_000, now_us=now_us) for name in names
        }
        assert len(told) == 1
        assert min(told) >= 1
    now_us += 2_000_000
    assert credits_.tell(names[0], MODEL, queue_us=0, service_us=1_000, now_us=now_us) == MOST


@given(
    st.lists(
        st.tuples(st.sampled_from(["reset", "close", "take", "give"]), st.sampled_from("ab")), max_size=60
    )
)
@settings(max_examples=60, deadline=None)
def test_whoever_comes_and_goes_no_count_falls_below_zero_and_nobody_is_remembered_for_nothing(
    steps: list[tuple[str, str]],
) -> None:
    credits_ = Credits(frames=MOST, size_bytes=1 << 20, models=(MODEL,))
    loans: list[Loan] = []
    for what, name in steps:
        match what:
            case "reset":
                credits_.reset(name)
            case "close":
                credits_.close(name)
            case "take" if (loan := credits_.take(name, 1, 0)) is not None:
                loans.append(loan)
            case "give" if loans:
                credits_.give_back(loans.pop(0))
        assert all(min(credits_.in_flight(one)) >= 0 for one in "ab")
    for loan in loans:
        credits_.give_back(loan)
    for name in "ab":
        credits_.close(name)
        assert credits_.in_flight(name) == (0, 0)
    assert len(credits_) == 0

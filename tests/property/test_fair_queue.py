"""The fair queue: shares between agents, deadlines within one, and nothing left behind."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.scheduling.fair_queue import FairQueue
from cloud.scheduling.queue import Ticket

MS = 1000
FAR_US = 10**12


class Shop:
    """One machine before a fair queue: every agent's items are pushed at once, runs take what is scripted."""

    def __init__(self) -> None:
        self.queue = FairQueue[str]()
        self.tickets: dict[str, Ticket[str]] = {}
        self.service_us: dict[str, int] = {}

    def push(self, agent: str, expiry_us: int = FAR_US) -> str:
        item = f"{agent}/{len(self.tickets)}"
        self.tickets[item] = self.queue.push(item, agent=agent, expiry_us=expiry_us, size_bytes=1)
        return item

    def run(self, run_us: int, charged_us: int) -> str:
        """The agent whose turn it was."""
        expired, item = self.queue.pop(0, cost_us=charged_us)
        assert expired == []
        assert item is not None
        self.queue.settle(self.tickets[item], run_us)
        agent = item.partition("/")[0]
        self.service_us[agent] = self.service_us.get(agent, 0) + run_us
        return agent


@settings(max_examples=200)
@given(
    agents=st.integers(2, 6),
    runs=st.lists(st.integers(1 * MS, 40 * MS), min_size=5, max_size=120),
    charged_us=st.integers(1 * MS, 40 * MS),
)
def test_of_agents_with_a_backlog_none_gets_more_than_two_runs_ahead_of_another(agents, runs, charged_us):
    """Goyal, Vin, Cheng 1996, theorem 1: |W_a − W_b| ≤ the longest run of a + that of b."""
    shop = Shop()
    names = [f"a{i}" for i in range(agents)]
    shop.service_us = dict.fromkeys(names, 0)
    for name in names:
        for _ in runs:
            shop.push(name)
    longest_us = max(*runs, charged_us)
    for run_us in runs:
        shop.run(run_us, charged_us)
        for a, b in combinations(names, 2):
            assert abs(shop.service_us[a] - shop.service_us[b]) <= 2 * longest_us


@given(others=st.integers(1, 8), backlog=st.integers(1, 20), before=st.integers(0, 40))
def test_an_agent_that_comes_back_waits_for_one_run_of_each_other_and_not_for_their_backlogs(
    others, backlog, before
):
    shop = Shop()
    for other in range(others):
        for _ in range(backlog + before):
            shop.push(f"o{other}")
    for _ in range(before):
        shop.run(10 * MS, 10 * MS)
    shop.push("back")
    waited = 0
    while shop.run(10 * MS, 10 * MS) != "back":
        waited += 1
    assert waited <= others


def test_an_agent_that_was_idle_has_gathered_no_credit():
    shop = Shop()
    for _ in range(30):
        shop.push("busy")
    for _ in range(10):
        shop.run(10 * MS, 10 * MS)
    for _ in range(10):
        shop.push("idle")
    turns = [shop.run(10 * MS, 10 * MS) for _ in range(10)]
    assert turns.count("idle") == turns.count("busy") == 5


def test_an_agent_whose_frames_take_three_times_as_long_gets_a_third_as_many_of_them():
    shop = Shop()
    for _ in range(400):
        shop.push("heavy")
        shop.push("light")
    turns = []
    for _ in range(200):
        _, item = shop.queue.pop(0, cost_us=10 * MS)
        assert item is not None
        agent = item.partition("/")[0]
        shop.queue.settle(shop.tickets[item], 30 * MS if agent == "heavy" else 10 * MS)
        turns.append(agent)
    assert abs(turns.count("heavy") - 50) <= 1


def test_of_one_agent_the_most_urgent_frame_is_next():
    shop = Shop()
    items = [shop.push("a", expiry_us) for expiry_us in (300, 100, 200)]
    order = [shop.queue.pop(0, cost_us=1)[1] for _ in items]
    assert order == [items[1], items[2], items[0]]


def test_what_expires_costs_its_agent_nothing():
    shop = Shop()
    for _ in range(10):
        shop.push("late", expiry_us=50)
        shop.push("other")
    shop.push("late")
    expired, first = shop.queue.pop(60, cost_us=10 * MS)
    assert len(expired) == 10
    assert first == "late/20"


STEP = st.tuples(
    st.sampled_from(["push", "push", "pop", "remove", "sweep", "settle"]),
    st.integers(0, 60),
    st.sampled_from("abcd"),
)


@settings(max_examples=300)
@given(st.lists(STEP, max_size=80))
def test_every_item_leaves_exactly_once(steps):
    queue = FairQueue[int]()
    tickets: dict[int, Ticket[int]] = {}
    left: list[int] = []
    for step, value, agent in steps:
        if step == "push":
            number = len(tickets)
            tickets[number] = queue.push(number, agent=agent, expiry_us=value, size_bytes=value)
        elif step == "pop":
            expired, item = queue.pop(value, cost_us=value + 1)
            left += expired + ([] if item is None else [item])
            assert all(tickets[i].expiry_us <= value for i in expired)
            assert item is None or tickets[item].expiry_us > value
        elif step == "sweep":
            left += queue.expired(value)
        elif value in tickets and step == "settle":
            queue.settle(tickets[value], value)
        elif value in tickets and queue.remove(tickets[value]):
            left.append(value)
        waiting = [t for t in tickets.values() if t.waiting]
        assert len(queue) == len(waiting) == len(tickets) - len(left)
        assert sorted(queue) == sorted(t.item for t in waiting)
        assert queue.size_bytes == sum(t.size_bytes for t in waiting)
        assert queue.soonest_us() == min((t.expiry_us for t in waiting), default=None)
        assert queue.ahead_of("z", None, cost_us=1) <= len(queue)
    left += queue.expired(10**9)
    assert sorted(left) == list(range(len(tickets)))
    assert (len(queue), queue.size_bytes) == (0, 0)


def test_an_empty_queue_remembers_no_debts_and_hardly_anybody():
    shop = Shop()
    for i in range(1000):
        shop.push(f"a{i}")
        if i % 100 == 99:
            while shop.queue.pop(0, cost_us=10 * MS)[1] is not None:
                assert shop.queue.agents <= 100
            assert shop.queue.agents <= 16
    shop.push("old")
    shop.run(900 * MS, 10 * MS)
    for _ in range(4):
        shop.push("old")
        shop.push("new")
    turns = [shop.run(10 * MS, 10 * MS) for _ in range(4)]
    assert turns.count("old") == turns.count("new") == 2


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 50)), max_size=30), st.integers(0, 10))
def test_as_many_run_before_a_new_frame_as_was_said(pushed, ran):
    """Nothing comes later here, so the forecast is exact."""
    queue = FairQueue[str]()
    for agent, expiry_us in pushed:
        queue.push("old", agent=agent, expiry_us=expiry_us, size_bytes=1)
    for _ in range(ran):
        queue.pop(0, cost_us=10)
    said = queue.ahead_of("a", 25, cost_us=10)
    queue.push("new", agent="a", expiry_us=25, size_bytes=1)
    met = 0
    while queue.pop(0, cost_us=10)[1] != "new":
        met += 1
    assert abs(met - said) <= 2, "those at the very same point of their shares may go either way"

"""Who brings answers: in order, at least once, patient with a receiver, and never stopped by one bad parcel."""

import threading

import pytest

from edge.sinks.delivery.courier import NeverError, NotNowError
from edge.sinks.delivery.postman import MOST_ASKED_US
from tests.support.eventually import eventually
from tests.support.postmen import House, failing


@pytest.fixture
def house():
    made = House()
    yield made
    made.sink.close()


def test_answers_are_delivered_in_order_in_batches(house):
    house.give(*range(1, 21))
    house.wait_taken(*range(1, 21))
    assert all(len(seqs) <= 8 for seqs in house.courier.tries)


def test_a_receiver_that_fails_is_tried_again_with_the_same_answers(house, caplog):
    house.courier.judge = failing(NotNowError("503"), NotNowError("503"), NotNowError("504"))
    house.give(1, 2)
    house.wait_taken(1, 2)
    first, *rest = house.courier.tries
    assert [seqs[: len(first)] for seqs in rest[:3]] == [first] * 3
    eventually(lambda: not house.postman.sight().failing, what="the recovery")
    assert house.postman.sight().retries == 3
    # Each new kind of trouble once, and its end.
    assert [r.getMessage() for r in caplog.records] == [
        "sink any: 503",
        "sink any: 504",
        "sink any: delivers again",
    ]


def test_a_batch_keeps_its_answers_while_it_is_tried_again_though_new_ones_come(house):
    tried = threading.Event()

    def judge(seqs):
        if not tried.is_set():
            house.give(2, 3)
            tried.set()
            raise NotNowError("busy")
        return len(seqs)

    house.courier.judge = judge
    house.give(1)
    house.wait_taken(1, 2, 3)
    assert house.courier.tries[:2] == [[1], [1]]


@pytest.mark.parametrize(
    ("asked_us", "waits_us"), [(50_000_000, 50_000_000), (10**12, MOST_ASKED_US), (0, 40_000_000)]
)
def test_the_wait_a_receiver_asks_for_is_kept_but_not_for_ever(asked_us, waits_us):
    house = House(first_us=40_000_000)
    try:
        house.courier.judge = failing(NotNowError("429", after_us=asked_us))
        house.give(1)
        eventually(lambda: house.postman.sight().again_us, what="the wait")
        assert house.postman.sight().again_us == waits_us
        assert house.courier.tries == [[1]]
    finally:
        house.sink.close()


def test_one_bad_answer_costs_only_itself(house):
    def judge(seqs):
        if 5 in seqs:
            raise NeverError("400 no such label", reason="http_400")
        return len(seqs)

    house.courier.judge = judge
    house.give(*range(1, 9))
    house.wait_taken(1, 2, 3, 4, 6, 7, 8)
    eventually(lambda: house.spool.empty, what="the end")
    seen = house.sink.sight().spool
    assert (seen.refused, seen.delivered, seen.balance) == ({"http_400": 1}, 7, 0)


def test_what_a_receiver_took_of_a_delivery_is_not_sent_again(house):
    first = threading.Event()

    def judge(seqs):
        if len(seqs) > 2 and not first.is_set():
            first.set()
            return 2
        return len(seqs)

    house.courier.judge = judge
    house.give(*range(1, 6))
    house.wait_taken(1, 2, 3, 4, 5)


def test_a_bug_in_a_courier_is_said_and_tried_again(house, caplog):
    house.courier.judge = failing(ZeroDivisionError("oh"))
    house.give(1)
    house.wait_taken(1)
    assert "ZeroDivisionError: oh" in caplog.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_sender_that_died_is_started_anew_with_the_next_answer(house, caplog):
    house.courier.judge = failing(SystemExit(1))
    house.give(1)
    eventually(lambda: house.courier.tries, what="the delivery that kills it")

    def woken():
        house.postman.wake()
        return house.courier.taken == [1]

    eventually(woken, what="the answer")
    assert house.postman.sight().restarts == 1
    assert "its sender died" in caplog.text


def test_a_connection_is_tended_before_the_first_answer_and_not_before_the_start(house):
    assert not any(thread.name == "post-any" for thread in threading.enumerate())
    house.sink.start()
    eventually(lambda: house.courier.tended, what="a look at the connection")


def test_at_the_end_what_waits_is_delivered_as_far_as_it_goes():
    house = House()
    house.give(*range(1, 101))
    house.sink.close()
    assert house.courier.taken == list(range(1, 101))
    assert house.courier.closed


def test_at_the_end_a_receiver_that_fails_gets_one_more_chance_and_the_rest_is_counted():
    house = House(first_us=60_000_000)
    house.courier.judge = failing(*[NotNowError("away")] * 9)
    house.give(1, 2)
    eventually(lambda: house.postman.sight().again_us, what="the wait after a first try")
    house.sink.close()
    assert len(house.courier.tries) == 2
    seen = house.sink.sight()
    assert (seen.spool.abandoned, seen.spool.balance, seen.post.failing) == (2, 0, "away")


def test_at_the_end_a_courier_that_hangs_is_interrupted():
    house = House()

    def judge(_seqs):
        house.courier.interrupted.wait(20)
        raise NotNowError("interrupted")

    house.courier.judge = judge
    house.give(1)
    eventually(lambda: house.courier.tries, what="a first try")
    house.sink.close()
    assert house.courier.closed
    assert house.sink.sight().spool.abandoned == 1


def test_a_spool_that_raises_delays_and_ends_nothing(house, caplog, monkeypatch):
    peek, broken = house.spool.peek, [MemoryError("no memory"), ValueError("a bug")]

    def look(**bounds):
        if broken:
            raise broken.pop(0)
        return peek(**bounds)

    monkeypatch.setattr(house.spool, "peek", look)
    house.give(1)
    house.wait_taken(1)
    assert house.postman.sight().restarts == 0
    assert "MemoryError: no memory" in caplog.text


def test_a_sender_that_dies_lets_go_of_its_connection(house, monkeypatch):
    class Ended(BaseException):
        pass

    def die(**_bounds):
        raise Ended

    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    monkeypatch.setattr(house.spool, "peek", die)
    house.sink.start()
    eventually(lambda: house.courier.closed, what="the end of the connection")


def test_a_refusal_is_said_once_for_each_reason_and_then_as_a_count(caplog):
    house = House(batch=1)

    def judge(seqs):
        raise NeverError("400 Bad Request", reason="http_400" if seqs[0] % 10 else "http_422")

    house.courier.judge = judge
    house.give(*range(1, 41))
    eventually(lambda: house.spool.empty, what="the end of all answers")
    house.sink.close()
    said = [record.getMessage() for record in caplog.records]
    assert house.spool.sight().refused == {"http_400": 36, "http_422": 4}
    assert [line for line in said if "is given up: 400 Bad Request" in line] == said[:2]
    assert said[2].startswith("sink any: 10 answers are given up by now: the last was")
    assert said[3:] == [
        "sink any: 36 answers are given up by now: http_400",
        "sink any: 4 answers are given up by now: http_422",
    ]

"""An answer at which the receiver goes away each time holds up no other for ever."""

import pytest

from edge.sinks.delivery.courier import NotNowError
from edge.sinks.delivery.postman import WENT_AWAY
from edge.sinks.delivery.suspicion import FIRST, NEXT
from tests.support.postmen import House, failing


@pytest.fixture
def house():
    made = House()
    yield made
    made.sink.close()


def going_away_at(*bad):
    """Ends the connection when it is given one of `bad` first, and takes what stands before."""

    def judge(seqs):
        good = next((place for place, seq in enumerate(seqs) if seq in bad), len(seqs))
        if good == 0:
            raise NotNowError("the connection ended", at_these=True)
        return good

    return judge


def test_an_answer_at_which_the_receiver_goes_away_each_time_is_given_up_with_a_reason_and_those_behind_it_go_on(
    house, caplog
):
    house.courier.judge = going_away_at(3)
    house.give(1, 2, 3, 4, 5)
    house.wait_taken(1, 2, 4, 5)
    assert sum(seqs == [3] for seqs in house.courier.tries) == FIRST
    sight = house.spool.sight()
    assert (sight.refused, sight.delivered, sight.balance) == ({WENT_AWAY: 1}, 4, 0)
    assert f"/3 is given up: the connection ended, {FIRST} times at this answer alone" in caplog.text


def test_several_such_answers_in_a_row_hold_up_nobody_for_ever(house):
    house.courier.judge = going_away_at(1, 2, 3)
    house.give(1, 2, 3, 4)
    house.wait_taken(4)
    assert [sum(seqs == [n] for seqs in house.courier.tries) for n in (1, 2, 3)] == [
        FIRST,
        NEXT,
        NEXT,
    ]
    assert house.spool.sight().refused == {WENT_AWAY: 3}


def test_a_queue_of_fifty_such_answers_clears_and_the_good_ones_among_them_arrive_in_order(house):
    good = {10, 20, 30, 40, 50, 55}
    house.courier.judge = going_away_at(*(set(range(1, 56)) - good))
    house.give(*range(1, 56))
    house.wait_taken(*sorted(good))
    assert len(house.courier.tries) <= 49 * (NEXT + 1) + len(good)
    sight = house.spool.sight()
    assert (sight.refused, sight.balance) == ({WENT_AWAY: 49}, 0)


def test_a_receiver_that_is_away_between_makes_no_answer_suspect(house):
    """A restart of the broker, a network that flaps: whoever is not there says nothing about an answer."""
    away = [NotNowError("no route")] * 20
    house.courier.judge = failing(*[NotNowError("the connection ended", at_these=True)] * (FIRST - 1), *away)
    house.give(1)
    house.wait_taken(1)
    assert house.spool.sight().refused == {}

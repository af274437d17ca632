"""A lane decides without clock or socket: each test is a history of moments, and what follows from it."""

import pytest

from edge.links.base import Connected, Disconnected, Received, Refused
from edge.links.lane import (
    ATTEMPT_WITHIN_US,
    MOST_SUPERSEDED,
    MOST_TRIED,
    NEXT_ADDRESS_AFTER_US,
    REFUSED_AGAIN_US,
    REFUSED_FOR_GOOD_US,
    RETRY_FIRST_US,
    RETRY_MOST_US,
    SUPERSEDED_FOR_US,
    Close,
    Greet,
    Open,
    Reply,
    State,
    Tell,
)
from protos.wire.session import Error, Goodbye, Lane, Ping, Pong, RejectReason
from tests.support.endpoints import WELCOME, result
from tests.support.lane_story import Story

NO = Error(reason=RejectReason.NO_MODEL, text="no such model", retry=False)
LATER = Error(reason=RejectReason.DRAINING, text="stopping", retry=True)
BYE = Reply(1, Goodbye(reason="not ours"))
WHO = Error(reason=RejectReason.HELLO_REQUIRED, text="who are you", retry=True)


@pytest.fixture
def story() -> Story:
    made = Story()
    made.look()
    return made


@pytest.fixture
def serving(story: Story) -> Story:
    story.welcomed(1)
    return story


def test_the_first_look_opens_a_connection_and_the_handshake_is_followed_by_a_hello(story: Story) -> None:
    assert story.said == [Open(1)]
    assert story.shaken(1) == (Greet(1),)
    assert story.shaken(1) == ()
    assert story.machine.current is None


def test_a_welcome_makes_a_connection_current_and_leaves_nothing_due(serving: Story) -> None:
    assert serving.told() == [Connected(Lane.LIVE, 1, WELCOME)]
    assert (serving.machine.current, serving.machine.welcome) == (1, WELCOME)
    assert serving.machine.due_us is None
    assert serving.pass_us(10**9) == []


@pytest.mark.parametrize("shaken", [False, True])
def test_an_attempt_that_takes_too_long_is_closed_and_tried_again_after_the_backoff(
    story: Story, shaken: bool
) -> None:
    if shaken:
        story.shaken(1)
    assert story.machine.due_us == story.now_us + ATTEMPT_WITHIN_US
    assert story.pass_us(ATTEMPT_WITHIN_US - 1) == []
    assert story.pass_us(1) == [Close(1, "no answer from the worker")]
    assert story.pass_us(RETRY_FIRST_US - 1) == []
    assert story.pass_us(1) == [Open(2)]
    assert story.told() == []


def test_attempts_go_on_for_ever_at_most_a_second_apart(story: Story) -> None:
    waits = []
    for number in range(1, 20):
        story.lost(number)
        due_us = story.machine.due_us
        assert due_us is not None
        waits.append(due_us - story.now_us)
        assert story.pass_us(waits[-1]) == [Open(number + 1)]
    assert waits == sorted(waits)
    assert waits[0] == RETRY_FIRST_US
    assert waits[-1] == RETRY_MOST_US


def test_a_lost_connection_is_reported_once_and_the_backoff_starts_anew(serving: Story) -> None:
    assert serving.lost(1) == [Close(1, "gone"), Tell(Disconnected(Lane.LIVE, 1, "gone"))]
    assert serving.lost(1) == ()
    assert serving.machine.current is None
    assert serving.pass_us(RETRY_FIRST_US) == [Open(2)]


def test_only_the_live_owner_asks_for_fresh_connections_and_never_has_more_than_four_tried(
    serving: Story,
) -> None:
    for _ in range(10):
        serving.look(fresh=True)
    assert len(serving.opened()) == 1 + MOST_TRIED
    for number in serving.opened()[1:]:
        serving.lost(number)
    assert serving.machine.current == 1
    assert serving.machine.due_us is None, "nothing is retried while a connection serves"


def test_the_first_welcome_wins_and_the_other_attempts_end(serving: Story) -> None:
    numbers = [serving.fresh() for _ in range(3)]
    serving.heard(numbers[1], WELCOME)
    assert serving.machine.current == numbers[1]
    assert serving.closed() == [numbers[0], numbers[2]]
    assert [type(e) for e in serving.told()] == [Connected, Connected]


def test_a_welcome_said_twice_changes_nothing(serving: Story) -> None:
    serving.heard(serving.fresh(), WELCOME)
    assert serving.heard(1, WELCOME) == ()
    assert serving.machine.current == 2


def test_replies_on_a_superseded_connection_still_count(serving: Story) -> None:
    serving.heard(serving.fresh(), WELCOME)
    answer = result(0, 5)
    assert serving.heard(1, answer) == (Tell(Received(Lane.LIVE, 1, answer, serving.now_us - 7)),)


def test_superseded_connections_end_after_thirty_seconds(serving: Story) -> None:
    serving.heard(serving.fresh(), WELCOME)
    assert serving.pass_us(SUPERSEDED_FOR_US - 1) == []
    assert serving.pass_us(1) == [Close(1, "superseded")]
    assert serving.machine.current == 2


def test_no_more_than_two_superseded_connections_are_kept(serving: Story) -> None:
    for _ in range(4):
        serving.heard(serving.fresh(), WELCOME)
    assert serving.machine.current == 5
    assert serving.closed() == [1, 2]
    assert [serving.machine.state(n) for n in (3, 4)] == [State.READY] * MOST_SUPERSEDED


def test_an_older_connection_that_lives_takes_the_place_of_a_lost_one_in_silence(serving: Story) -> None:
    serving.heard(serving.fresh(), WELCOME)
    serving.lost(2)
    assert serving.machine.current == 1
    assert [type(e) for e in serving.told()] == [Connected, Connected]
    assert serving.pass_us(10 * SUPERSEDED_FOR_US) == [], "it is not superseded any more"


@pytest.mark.parametrize(("error", "wait_us"), [(LATER, REFUSED_AGAIN_US), (NO, REFUSED_FOR_GOOD_US)])
def test_a_refusal_is_told_in_words_and_tried_again_in_its_own_time(
    story: Story, error: Error, wait_us: int
) -> None:
    story.shaken(1)
    assert story.heard(1, error) == (Tell(Refused(Lane.LIVE, error)), Close(1, f"refused: {error.text}"))
    assert story.pass_us(wait_us - 1) == []
    assert story.pass_us(1) == [Open(2)]


def test_a_worker_the_owner_has_no_use_for_is_left_and_tried_again_as_after_a_refusal(serving: Story) -> None:
    assert serving.turned_down(1) == [BYE, Close(1, "not ours"), Tell(Disconnected(Lane.LIVE, 1, "not ours"))]
    assert serving.pass_us(REFUSED_FOR_GOOD_US - 1) == []
    assert serving.pass_us(1) == [Open(2)]


def test_a_fresh_connection_the_owner_has_no_use_for_gives_its_place_back_to_the_older_one(
    serving: Story,
) -> None:
    serving.heard(serving.fresh(), WELCOME)
    assert [type(d) for d in serving.turned_down(2)] == [Reply, Close]
    assert serving.machine.current == 1
    assert serving.pass_us(10 * SUPERSEDED_FOR_US) == [], "it serves, and is not superseded any more"
    assert serving.turned_down(2) == []


def test_a_fresh_connection_that_is_refused_leaves_the_present_one_alone(serving: Story) -> None:
    serving.heard(serving.fresh(), NO)
    assert serving.machine.current == 1
    assert serving.machine.due_us is None


def test_an_error_after_the_welcome_is_the_owners_business(serving: Story) -> None:
    assert serving.heard(1, LATER) == (Tell(Received(Lane.LIVE, 1, LATER, serving.now_us - 7)),)
    assert serving.closed() == []


def test_a_worker_that_has_forgotten_us_gets_a_new_connection_at_once(serving: Story) -> None:
    assert [type(d) for d in serving.heard(1, WHO)] == [Close, Tell]
    assert serving.look() == [Open(2)]


def test_a_workers_ping_is_answered_with_the_time_it_lay_here(serving: Story) -> None:
    (answer,) = serving.heard(1, Ping(nonce=9, sent_mono_us=1))
    assert answer == Reply(1, Pong(nonce=9, arrived_mono_us=serving.now_us - 7, resident_us=7))


def test_nothing_is_decided_for_a_connection_that_has_ended(serving: Story) -> None:
    serving.lost(1)
    for message in (WELCOME, NO, WHO, Ping(nonce=1, sent_mono_us=1), result(0, 1)):
        assert serving.heard(1, message) == ()
    assert serving.shaken(1) == ()


def test_every_connection_that_was_opened_is_closed_exactly_once(story: Story) -> None:
    for round_ in range(40):
        for number in story.opened():
            match (round_ + number) % 5:
                case 0:
                    story.welcomed(number)
                case 1:
                    story.heard(number, LATER)
                case 2:
                    story.lost(number)
                case 3:
                    story.shaken(number)
                case _:
                    story.heard(number, WHO)
        story.look(fresh=round_ % 3 == 0)
        story.pass_us(400_000)
    alive = [n for n in story.opened() if story.machine.state(n) is not None]
    assert sorted(story.closed() + alive) == story.opened()
    assert len(story.opened()) > 20


def test_beside_a_first_that_stays_silent_the_next_address_of_a_name_is_tried_and_no_more_than_four() -> None:
    story = Story(several=True)
    story.look()
    assert story.machine.due_us == story.now_us + NEXT_ADDRESS_AFTER_US
    for count in range(2, MOST_TRIED + 1):
        story.pass_us(NEXT_ADDRESS_AFTER_US)
        assert len(story.opened()) == count
    story.pass_us(NEXT_ADDRESS_AFTER_US)
    assert len(story.opened()) == MOST_TRIED
    story.welcomed(2)
    assert sorted(story.closed()) == [1, 3, 4]
    story.pass_us(10 * NEXT_ADDRESS_AFTER_US)
    assert len(story.opened()) == MOST_TRIED


def test_the_only_address_of_a_name_is_not_tried_twice_at_once() -> None:
    story = Story()
    story.look()
    story.pass_us(NEXT_ADDRESS_AFTER_US)
    assert story.opened() == [1]

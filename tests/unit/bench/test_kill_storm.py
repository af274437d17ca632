"""What a storm of kills is judged by."""

from tests.support.kill_storm import Outcome


def test_only_a_record_that_was_still_to_be_told_when_its_agent_died_may_be_unseen():
    def at(seq: int) -> tuple[str, str, int]:
        return ("run", "door", seq)

    outcome = Outcome(
        seen=[("near", at(1)), ("near", at(4)), ("far", at(6))],
        records=[at(seq) for seq in range(1, 8)],
        interrupted={at(2)},
    )
    assert outcome.unexplained == {at(3)}
    assert outcome.lost == set()

"""Any history of a payload between outbox and cloud: lost, late, doubled, disordered, cut off, killed on either side. It
arrives once, intact, and leaves the gateway only then."""

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.support.outboxes import payload
from tests.support.payload_house import House

places = st.integers(0, 3)


class PayloadWayMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._dir = tempfile.TemporaryDirectory()
        self.house = House(Path(self._dir.name))
        self.seq = 0
        self.house.connect()

    def teardown(self) -> None:
        house = self.house
        house.settle()
        for seq, entry in house.kept.items():
            assert house.in_cloud(seq) == entry.data
        ledger = house.outbox.ledger()
        assert ledger.payloads_pending == 0
        assert ledger.payloads_committed == ledger.payloads_acked == len(house.kept)
        assert house.parts() == []
        house.close()
        self._dir.cleanup()

    @rule(size=st.integers(1, 60_000), priority=st.integers(0, 2), same=st.booleans())
    def a_picture_is_kept(self, size, priority, same):
        self.seq += 1
        made = payload(self.seq, size=size, priority=priority)
        if same and self.house.kept:  # what another frame showed already
            before = next(iter(self.house.kept.values()))
            made = payload(self.seq, size=1, priority=priority)
            made = type(made)(
                shown=type(made.shown)(
                    key=made.shown.key,
                    priority=priority,
                    sha256=before.shown.sha256,
                    encoding=before.shown.encoding,
                    source_size=made.shown.source_size,
                ),
                age_us=0,
                data=before.data,
            )
        self.house.keep(made)

    @rule(span_us=st.sampled_from([0, 20_000, 100_000, 3_000_000, 6_000_000]))
    def time_passes(self, span_us):
        self.house.turn(span_us)

    @rule(place=places)
    def a_message_arrives_in_the_cloud(self, place):
        self.house.arrive_up(min(place, max(0, len(self.house.up) - 1)))

    @rule(place=places)
    def a_message_arrives_at_the_gateway(self, place):
        self.house.arrive_down(min(place, max(0, len(self.house.down) - 1)))
        self.house.turn()

    @rule()
    def the_worker_writes(self):
        self.house.writer.work()

    @rule(place=places)
    def a_message_is_lost(self, place):
        for queue in (self.house.up, self.house.down):
            if place < len(queue):
                del queue[place]

    @rule(place=places)
    def a_message_comes_twice(self, place):
        for queue in (self.house.up, self.house.down):
            if place < len(queue):
                queue.append(queue[place])

    @rule()
    def a_piece_is_damaged(self):
        for place, message in enumerate(self.house.up):
            chunks = getattr(message, "chunks", ())
            if chunks:
                broken = type(chunks[0])(
                    index=chunks[0].index,
                    offset_bytes=chunks[0].offset_bytes,
                    data=bytes(b ^ 1 for b in chunks[0].data),
                    have=chunks[0].have,
                )
                self.house.up[place] = type(message)(batch=message.batch, chunks=(broken,))  # type: ignore[union-attr,call-arg]
                return

    @rule()
    def the_connection_is_lost_and_comes_back(self):
        self.house.connect()

    @rule()
    def the_worker_is_killed(self):
        self.house.kill_worker()
        self.house.connect()

    @rule()
    def the_gateway_is_killed(self):
        self.house.kill_gateway()
        self.house.connect()

    @invariant()
    def nothing_leaves_the_gateway_before_the_cloud_keeps_it(self):
        here = {p.shown.key[2] for p in self.house.outbox.payloads(limit=1000)}
        for seq, entry in self.house.kept.items():
            if seq not in here:
                assert self.house.in_cloud(seq) == entry.data

    @invariant()
    def nothing_wrong_is_kept(self):
        for seq, entry in self.house.kept.items():
            assert self.house.in_cloud(seq) in (None, entry.data)

    @invariant()
    def the_law_holds(self):
        assert self.house.outbox.ledger().payload_balance == 0


TestPayloadWays = PayloadWayMachine.TestCase
TestPayloadWays.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

"""Any history of an outbox, on every store, against a model that is a handful of dictionaries."""

import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from edge.outbox.bounds import RECORD_BYTES, Bounds, Ledger
from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.memory_outbox import MemoryOutbox
from edge.outbox.store import Changes, Key, OutboxStore
from pipelines.result import GapReason
from tests.support.outboxes import SECOND, entry, payload
from tests.support.storages import KilledError, KillingStorage, copy_as_it_lies

MAX_BYTES = 6000
MAX_AGE_US = 50 * SECOND

seqs = st.integers(1, 12)
pictures = st.builds(payload, seqs, priority=st.integers(0, 2), size=st.integers(1, 900))
entries = st.builds(entry, seqs, priority=st.integers(0, 2), size=st.integers(1, 900))


class ToldOutbox(MemoryOutbox):
    """A store in memory, which no kill can strike."""

    def uptime_is(self, uptime_us: int) -> None:
        self._tally.values["uptime_us"] = uptime_us


class OutboxMachine(RuleBasedStateMachine):
    """Both stores live through the same history. A kill strikes the file's store before any one of its statements:
    what lies on the disk then is all that the next process has."""

    def __init__(self) -> None:
        super().__init__()
        self._dir = tempfile.TemporaryDirectory()
        self.bounds = Bounds(max_bytes=MAX_BYTES, max_age_us=MAX_AGE_US)
        self.path = Path(self._dir.name) / "outbox.db"
        self.storage = KillingStorage()
        self.lives = 0
        self.sqlite = SqliteOutbox(self.path, bounds=self.bounds, storage=self.storage)
        self.memory = ToldOutbox(bounds=self.bounds)
        self.now_us = 0
        self.model: dict[Key, tuple[int, bytes]] = {}
        self.committed = 0
        self.acked = 0
        self.gone: set[Key] = set()  # evicted at some time
        self.pictures: dict[Key, bytes] = {}
        self.pictures_committed = 0
        for store in self.stores:
            store.open(0)

    @property
    def stores(self) -> tuple[OutboxStore, OutboxStore]:
        return self.sqlite, self.memory

    def teardown(self) -> None:
        self.sqlite.close(self.now_us)
        self._dir.cleanup()

    def commit(self, changes: Changes) -> None:
        for store in self.stores:
            store.commit(changes, self.now_us)
        self._forget_the_evicted()

    def _committed(self, changes: Changes) -> None:
        """The file's store has made `changes`; the other and the model follow."""
        gone = {s.number: s.key for s in self.memory.peek(limit=1000, max_bytes=1 << 30)}
        for number in changes.acknowledged:
            del self.model[gone[number]]
        self.acked += len(changes.acknowledged)
        for number in changes.purged:
            del self.model[gone[number]]
            self.gone.add(gone[number])
        for item in changes.entries:
            self.committed += item.key not in self.model
            self.model[item.key] = (item.priority, item.data)
        self.pictures_committed += len(changes.payloads)
        self.pictures |= {picture.shown.key: picture.data for picture in changes.payloads}
        self.memory.commit(changes, self.now_us)
        self._forget_the_evicted()

    def _forget_the_evicted(self) -> None:
        left = {s.key for s in self.memory.peek(limit=1000, max_bytes=1 << 30)}
        for key in [k for k in self.model if k not in left]:
            del self.model[key]
            self.gone.add(key)
        shown = {p.shown.key for p in self.memory.payloads(limit=1000)}
        self.pictures = {key: data for key, data in self.pictures.items() if key in shown}

    @rule(new=st.lists(pictures, max_size=3))
    def keep_pictures(self, new):
        for item in new:  # one by one: what one displaces is seen before the next comes
            self.pictures_committed += 1
            self.pictures[item.shown.key] = item.data
            self.commit(Changes(payloads=[item]))

    @rule(count=st.integers(1, 3))
    def a_picture_arrives(self, count):
        shown = [list(store.payloads(limit=count)) for store in self.stores]
        assert shown[0] == shown[1]
        self.commit(Changes(acknowledged_payloads=[p.number for p in shown[0]]))

    @rule(new=st.lists(entries, max_size=5))
    def append(self, new):
        for item in new:
            self.committed += item.key not in self.model
            self.model[item.key] = (item.priority, item.data)
        self.commit(Changes(entries=new))

    @rule(count=st.integers(1, 4), max_bytes=st.integers(1, 3000))
    def send_and_acknowledge(self, count, max_bytes):
        sent = [list(store.peek(limit=count, max_bytes=max_bytes)) for store in self.stores]
        assert sent[0] == sent[1]
        for stored in sent[0]:
            del self.model[stored.key]
        self.acked += len(sent[0])
        self.commit(Changes(acknowledged=[s.number for s in sent[0]]))

    @rule(again=entries)
    def replace_while_in_flight(self, again):
        sent = [store.find(again.key) for store in self.stores]
        assert sent[0] == sent[1]
        self.committed += again.key not in self.model
        self.model[again.key] = (again.priority, again.data)
        self.commit(Changes(entries=[again]))
        if sent[0] is not None:
            self.commit(Changes(acknowledged=[sent[0].number]))

    @rule(span_us=st.integers(0, 30 * SECOND))
    def time_passes(self, span_us):
        self.now_us += span_us
        self.commit(Changes())

    @rule()
    def restart(self):
        for store in self.stores:
            store.close(self.now_us)
            store.open(self.now_us)

    @rule(
        new=st.lists(entries, max_size=4),
        picture=st.lists(pictures, max_size=1),
        acked=st.integers(0, 3),
        purged=st.integers(0, 1),
        at=st.integers(0, 30),
    )
    def killed_while_committing(self, new, picture, acked, purged, at):
        numbers = [s.number for s in self.memory.peek(limit=acked + purged, max_bytes=1 << 30)]
        changes = Changes(entries=new, payloads=picture, acknowledged=numbers[:acked], purged=numbers[acked:])
        before = _numbers(self.sqlite)
        self.lives += 1
        copy = Path(self._dir.name) / str(self.lives) / "outbox.db"
        self.storage.arm(at, self.path, copy)
        with suppress(KilledError):
            self.sqlite.commit(changes, self.now_us)
        if self.storage.disarm():  # it was over before
            self._committed(changes)
            return
        self.sqlite.let_go()
        self.path = copy
        self.sqlite = SqliteOutbox(self.path, bounds=self.bounds, storage=self.storage)
        self.sqlite.open(self.now_us)
        assert self.sqlite.ledger().set_aside_files == 0
        if _numbers(self.sqlite) != before:
            self._committed(changes)
        self.memory.close(self.now_us)
        self._same_uptime()

    @rule()
    def killed_between_two_commits(self):
        self.lives += 1
        copy = Path(self._dir.name) / str(self.lives) / "outbox.db"
        copy_as_it_lies(self.path, copy)
        self.sqlite.let_go()
        self.path = copy
        self.sqlite = SqliteOutbox(self.path, bounds=self.bounds, storage=self.storage)
        self.sqlite.open(self.now_us)
        self.memory.close(self.now_us)
        self._same_uptime()

    def _same_uptime(self):
        """A killed process forgets the uptime since its last commit; the store in memory is told so."""
        self.memory.uptime_is(self.sqlite.ledger().uptime_us)
        self.memory.open(self.now_us)

    @invariant()
    def both_hold_exactly_what_the_model_holds(self):
        for store in self.stores:
            kept = {s.key: (s.priority, s.data) for s in store.peek(limit=1000, max_bytes=1 << 30)}
            assert kept == self.model

    @invariant()
    def every_picture_kept_is_intact(self):
        for store in self.stores:
            kept = {
                p.shown.key: store.read_payload(p.number, offset_bytes=0, size_bytes=10_000)
                for p in store.payloads(limit=1000)
            }
            assert kept == self.pictures

    @invariant()
    def the_law_of_the_pictures_holds(self):
        ledgers = [store.ledger() for store in self.stores]
        for ledger in ledgers:
            assert ledger.payload_balance == 0
            assert ledger.payloads_committed == self.pictures_committed
            assert ledger.payloads_pending == len(self.pictures)
            assert ledger.payload_bytes <= ledger.bytes <= MAX_BYTES
        assert ledgers[0].payloads_evicted == ledgers[1].payloads_evicted

    @invariant()
    def the_law_holds(self):
        for store in self.stores:
            ledger = store.ledger()
            assert ledger.balance == 0
            assert (ledger.committed, ledger.acked) == (self.committed, self.acked)
            assert ledger.pending == len(self.model)
            assert sum(ledger.evicted.values()) == self.committed - self.acked - len(self.model)

    @invariant()
    def the_bounds_hold(self):
        for store in self.stores:
            assert store.ledger().bytes <= MAX_BYTES
            kept = store.peek(limit=1000, max_bytes=1 << 30)
            assert sum(len(s.data) + RECORD_BYTES for s in kept) <= store.ledger().bytes
            assert all(store.uptime_us(self.now_us) - s.born_us <= MAX_AGE_US for s in kept)

    @invariant()
    def every_eviction_is_explained(self):
        for store in self.stores:
            if store.ledger().gaps_dropped:
                continue
            explained = {
                (g.gap.run, g.gap.stream, seq)
                for g in store.gaps(limit=1000)
                if g.gap.reason is GapReason.EVICTED
                for seq in range(g.gap.first, g.gap.last + 1)
            }
            assert self.gone <= explained


def _numbers(store: SqliteOutbox) -> Ledger:
    """What every transaction that changes anything changes."""
    return replace(store.ledger(), flash_bytes_written=0)


TestOutboxHistories = OutboxMachine.TestCase
TestOutboxHistories.settings = settings(
    max_examples=30, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

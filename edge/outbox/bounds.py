"""How much the outbox may hold, what a row counts for and the ledger it is balanced by."""

from dataclasses import dataclass, field

from pipelines.errors import ConfigError

RECORD_BYTES = 160
"""What a record takes beside its data: its key twice, its place in two indexes, the page's share."""

GAP_BYTES = 96

DAY_US = 24 * 3600 * 1_000_000
FLASH_AFTER_US = 60_000_000  # a rate over less says more about the start than about the day


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """`max_bytes` of rows, and the uptime a row may age before it is given up. `coarsen`: payloads go before any record
    does; else a payload goes before the records of its own priority."""

    max_bytes: int = 1 << 30
    max_age_us: int = 72 * 3600 * 1_000_000
    coarsen: bool = True

    def __post_init__(self) -> None:
        if self.max_bytes < 4096 or self.max_age_us <= 0:
            raise ConfigError("an outbox needs max_bytes of at least 4096 and a max_age above zero")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The law as numbers: `committed = acked + pending + evicted + set_aside`, where evicted is by age,
    by bytes, or purged by a person.

    `pending`, `gaps` and `refused` are counted rows, the others are written with each transaction; `set_aside_files`
    counts damaged files, of which `set_aside` records are known; `refused`: of those set aside, how many are still kept,
    since it was a worker that could not read them. Payloads have the same law of their own; `payloads_refused`
    are those the cloud will never take, `payload_bytes` is their part of `bytes`. `uptime_us` is the age clock: uptime
    accumulated over all starts. `flash_bytes_written` is what went to the WAL and from it to the file.
    """

    committed: int = 0
    acked: int = 0
    pending: int = 0
    evicted_age: int = 0
    evicted_bytes: int = 0
    evicted_purged: int = 0
    set_aside: int = 0
    set_aside_files: int = 0
    refused: int = 0
    gaps: int = 0
    gaps_dropped: int = 0
    bytes: int = 0
    uptime_us: int = 0
    flash_bytes_written: int = 0
    payloads_committed: int = 0
    payloads_acked: int = 0
    payloads_pending: int = 0
    payloads_evicted_age: int = 0
    payloads_evicted_bytes: int = 0
    payloads_evicted_purged: int = 0
    payloads_refused: int = 0
    payloads_set_aside: int = 0
    payload_bytes: int = 0

    @property
    def evicted(self) -> dict[str, int]:
        return {"age": self.evicted_age, "bytes": self.evicted_bytes, "purged": self.evicted_purged}

    @property
    def flash_gb_per_day(self) -> float:
        """What the outbox writes in 24 h of uptime, over its whole life; 0 in its first minute."""
        if self.uptime_us < FLASH_AFTER_US:
            return 0.0
        return self.flash_bytes_written / 1e9 * (DAY_US / self.uptime_us)

    @property
    def balance(self) -> int:
        """0 when the law holds."""
        gone = self.acked + sum(self.evicted.values()) + self.set_aside
        return self.committed - gone - self.pending

    @property
    def payloads_evicted(self) -> dict[str, int]:
        return {
            "age": self.payloads_evicted_age,
            "bytes": self.payloads_evicted_bytes,
            "purged": self.payloads_evicted_purged,
        }

    @property
    def payload_balance(self) -> int:
        """0 when the law of the payloads holds."""
        evicted = sum(self.payloads_evicted.values())
        gone = self.payloads_acked + evicted + self.payloads_refused + self.payloads_set_aside
        return self.payloads_committed - gone - self.payloads_pending


@dataclass(slots=True)
class Tally:
    """The numbers of a ledger while a transaction is being made; `begin` and `roll_back` frame it."""

    values: dict[str, int] = field(default_factory=dict)
    _before: dict[str, int] = field(default_factory=dict)

    def begin(self) -> None:
        self._before = dict(self.values)

    def roll_back(self) -> None:
        self.values = dict(self._before)

    def add(self, name: str, amount: int = 1) -> None:
        self.values[name] = self.values.get(name, 0) + amount

    def get(self, name: str) -> int:
        return self.values.get(name, 0)

    def next_number(self) -> int:
        """A number for a row, rising, never given twice."""
        number = self.peek_number()
        self.take_numbers(1)
        return number

    def peek_number(self) -> int:
        return max(1, self.get("next_number"))

    def take_numbers(self, count: int) -> None:
        self.values["next_number"] = self.peek_number() + count

    def ledger(self) -> Ledger:
        return Ledger(**{k: v for k, v in self.values.items() if k != "next_number"})

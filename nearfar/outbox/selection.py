"""Which records of an outbox are meant: of a stream, of a priority, of an age. Conditions are joined."""

from dataclasses import dataclass

from pipelines.result import PRIORITIES, Priority


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """None: any. Ages are accumulated uptime since capture, which no wall clock can falsify: at most `since_us`,
    and at least `before_us`."""

    stream: str | None = None
    priority: Priority | None = None
    since_us: int | None = None
    before_us: int | None = None

    @property
    def is_everything(self) -> bool:
        return self == Selection()

    @property
    def suits_gaps(self) -> bool:
        """Frames without a record have no priority."""
        return self.priority is None

    def where(self, uptime_us: int) -> tuple[str, list[object]]:
        """A WHERE clause for `records`, and for `gaps` if `suits_gaps`; and its values."""
        terms: list[str] = []
        values: list[object] = []
        if self.stream is not None:
            terms.append("stream = ?")
            values.append(self.stream)
        if self.priority is not None:
            terms.append("priority = ?")
            values.append(PRIORITIES.index(self.priority))
        if self.since_us is not None:
            terms.append("born_us >= ?")
            values.append(uptime_us - self.since_us)
        if self.before_us is not None:
            terms.append("born_us <= ?")
            values.append(uptime_us - self.before_us)
        return (f" WHERE {' AND '.join(terms)}" if terms else ""), values

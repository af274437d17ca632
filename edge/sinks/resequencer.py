"""Answers of each stream in the order of their frames, at the price of waiting for the ones that are missing.

Sans-IO: `add` takes an answer and when its deadline is, `skip` a frame that gets none, `take` gives what may go. An earlier
frame's deadline is never after a later one's, so a gap is waited for until the deadline of the first answer behind it, and
no longer. What comes after its turn goes at once, and is counted.
"""

from dataclasses import dataclass, field

from pipelines.result import Answer

MOST_SKIPPED = 4096
"""Frames without an answer that may lie behind a missing one; beyond, the missing one is given up."""


@dataclass(slots=True)
class _Stream:
    """`due_seq`: the lowest seq that has not had its turn."""

    due_seq: int = 1
    held: dict[int, tuple[Answer, int]] = field(default_factory=dict)
    skipped: set[int] = field(default_factory=set)

    def advance(self, upto: int) -> list[Answer]:
        """Every held answer with a seq up to `upto`, in order, and those that follow without a gap."""
        out: list[Answer] = []
        if upto >= self.due_seq:
            seqs = sorted(seq for seq in self.held if seq <= upto)
            out += [self.held.pop(seq)[0] for seq in seqs]
            self.skipped = {seq for seq in self.skipped if seq > upto}
            self.due_seq = upto + 1
        while True:
            if self.due_seq in self.held:
                out.append(self.held.pop(self.due_seq)[0])
            elif self.due_seq in self.skipped:
                self.skipped.remove(self.due_seq)
            else:
                return out
            self.due_seq += 1


class Resequencer:
    """`late` counts answers that came after their turn."""

    def __init__(self) -> None:
        self._streams: dict[str, _Stream] = {}
        self._ready: list[Answer] = []
        self.late = 0

    def add(self, answer: Answer, *, deadline_us: int) -> None:
        """`deadline_us` on the clock of `take`."""
        stream = self._streams.setdefault(answer.id.stream, _Stream())
        seq = answer.id.seq
        if seq < stream.due_seq:
            self.late += 1
            self._ready.append(answer)
            return
        stream.held[seq] = (answer, deadline_us)
        self._ready += stream.advance(0)

    def skip(self, stream_name: str, seq: int) -> None:
        """The frame gets no answer: nobody waits for it."""
        stream = self._streams.setdefault(stream_name, _Stream())
        if seq < stream.due_seq:
            return
        stream.skipped.add(seq)
        first = min(stream.skipped) if len(stream.skipped) > MOST_SKIPPED else 0
        self._ready += stream.advance(first)

    def take(self, now_us: int) -> list[Answer]:
        """What may go now."""
        out, self._ready = self._ready, []
        for stream in self._streams.values():
            over = [seq for seq, (_, deadline_us) in stream.held.items() if deadline_us <= now_us]
            if over:
                out += stream.advance(max(over))
        return out

    def due_us(self) -> int | None:
        """When `take` will next have something to give, if nothing comes before."""
        return min((d for s in self._streams.values() for _, d in s.held.values()), default=None)

    def take_all(self) -> list[Answer]:
        """What is still held, in order: nothing more will come."""
        out, self._ready = self._ready, []
        for stream in self._streams.values():
            out += stream.advance(max(stream.held, default=0))
        return out

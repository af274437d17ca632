"""Whether an agent does all its work, judged from what can be seen of it; what it lacks is in words.

A worker that is away is no reason: near answers and the outbox keeps. One stalled camera among others is none
either: its stream says so by itself.
"""

from collections.abc import Mapping

from edge.capture.state import StreamState, StreamStatus

SILENT_US = 5_000_000
"""A dispatcher turns at least every 250 ms; one that did not for this long hangs."""

_NO_PICTURES = (StreamState.STALLED, StreamState.FAILED)


def reasons(
    *, streams: Mapping[str, StreamStatus], turned_us: int, outbox_error: str, now_us: int
) -> list[str]:
    """`turned_us`: when the dispatcher last said that it turns, 0 = not yet."""
    out = []
    if all(status.state in _NO_PICTURES for status in streams.values()):
        said = "; ".join(f"{name} {s.state}: {s.reason}" for name, s in streams.items())
        out.append(f"no stream gives pictures ({said})")
    if turned_us and now_us - turned_us > SILENT_US:
        out.append(f"the dispatcher has made no turn for {(now_us - turned_us) / 1e6:.0f} s")
    if outbox_error:
        out.append(f"the outbox cannot write: {outbox_error}")
    return out

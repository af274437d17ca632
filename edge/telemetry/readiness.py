"""Whether an agent does all its work, judged from what can be seen of it; what it lacks is in words.

A camera that was never reached counts as giving no pictures once it has had its time to start.

A worker that is away is no reason: near answers and the outbox keeps, and the agent is called degraded while no frame may
go over any link. One stalled camera among others is none either: its stream says so by itself.
"""

from collections.abc import Mapping, Sequence

from edge.capture.state import StreamState, StreamStatus
from edge.far.sight import DATA_BUDGET, LinkSight
from edge.scheduling.policies import WITHOUT_FAR

SILENT_US = 5_000_000
"""A dispatcher turns at least every 250 ms; one that did not for this long hangs."""

CONNECTING_US = 30_000_000
"""Cameras that start together with their gateway take so long; longer, and its address is more likely wrong."""


def _gives_none(status: StreamStatus, now_us: int) -> bool:
    if status.state is StreamState.CONNECTING:
        return now_us - status.since_us > CONNECTING_US
    return status.state in (StreamState.STALLED, StreamState.FAILED)


def reasons(
    *, streams: Mapping[str, StreamStatus], turned_us: int, outbox_error: str, now_us: int
) -> list[str]:
    """`turned_us`: when the dispatcher last said that it turns, 0 = not yet."""
    out = []
    if all(_gives_none(status, now_us) for status in streams.values()):
        said = "; ".join(f"{name} {s.state}: {s.reason}" for name, s in streams.items())
        out.append(f"no stream gives pictures ({said})")
    if turned_us and now_us - turned_us > SILENT_US:
        out.append(f"the dispatcher has made no turn for {(now_us - turned_us) / 1e6:.0f} s")
    if outbox_error:
        out.append(f"the outbox cannot write: {outbox_error}")
    return out


def without_far(links: Sequence[LinkSight], *, policy: str) -> list[str]:
    """Why no frame may go over any of `links`; nothing while one may go over one of them, or if `policy` sends none."""
    if policy in WITHOUT_FAR or any(link.offloads for link in links):
        return []
    return [f"link {link.link}: {link.reason or DATA_BUDGET}" for link in links]

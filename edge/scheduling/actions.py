"""What the scheduler wants done, as values. The dispatcher (or the simulator) carries them out."""

from dataclasses import dataclass

from edge.scheduling.near_timeline import Key
from pipelines.result import AnsweredBy, Status


@dataclass(frozen=True, slots=True)
class Encode:
    """Make the frame's payload; then call `encoded` or `encode_failed`."""

    key: Key


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Send head and body; then call `send_failed` if it was not accepted."""

    key: Key
    worker_budget_us: int
    probe: bool


@dataclass(frozen=True, slots=True)
class CancelFar:
    """Tell the worker it need not start this one."""

    key: Key


@dataclass(frozen=True, slots=True)
class StartNear:
    """Run near on the frame; then call `near_done`. Never asked for while another run is on.

    `due_us`: when this start was planned; what comes after it is overhead.
    """

    key: Key
    due_us: int


@dataclass(frozen=True, slots=True)
class CancelNear:
    """Stop the run that is on; `near_done` still has to be called when it has stopped."""

    key: Key


@dataclass(frozen=True, slots=True)
class Give:
    """The answer is decided. `hold` = commit it to the outbox first and wait for `Release`."""

    key: Key
    by: AnsweredBy
    status: Status
    reason: str
    hold: bool


@dataclass(frozen=True, slots=True)
class Release:
    """Hand a held answer to the sinks. `committed` False: its commit did not come in time."""

    key: Key
    committed: bool


@dataclass(frozen=True, slots=True)
class LateFar:
    """A far result came after another answer was given."""

    key: Key


@dataclass(frozen=True, slots=True)
class SendPing:
    nonce: int


@dataclass(frozen=True, slots=True)
class OpenFresh:
    """Open another live connection; the present one does not answer."""


FarAction = Encode | SendFrame | CancelFar | SendPing | OpenFresh
"""Actions that concern the link."""
Action = FarAction | StartNear | CancelNear | Give | Release | LateFar

"""What the scheduler wants done, as values. The dispatcher (or the simulator) carries them out.

`link` names one of the settings' links, `rung` is an index into its ladder. Nobody changes an action: they are not
frozen only because making a frozen one takes three times as long, and every frame needs several.
"""

from dataclasses import dataclass

from edge.scheduling.key import Key
from pipelines.result import AnsweredBy, ShedReason, Status


@dataclass(slots=True, unsafe_hash=True)
class Encode:
    """Make the frame's payload; then call `encoded` or `send_failed`."""

    key: Key
    rung: int


@dataclass(slots=True, unsafe_hash=True)
class SendFrame:
    """Send head and body; then call `send_failed` if it was not accepted. A frame may go over two links.

    `p`: the probability it is given of being on time.
    """

    key: Key
    link: str
    worker_budget_us: int
    probe: bool
    p: float = 0.0


@dataclass(slots=True, unsafe_hash=True)
class CancelFar:
    """Tell the worker it need not start this one."""

    key: Key
    link: str


@dataclass(slots=True, unsafe_hash=True)
class StartNear:
    """Run near on the frame; then call `near_done`. Never asked for while another run is on.

    `due_us`: when this start was planned; what comes after it is overhead. `small`: at the smaller input.
    """

    key: Key
    due_us: int
    small: bool = False


@dataclass(slots=True, unsafe_hash=True)
class CancelNear:
    """Stop the run that is on; `near_done` still has to be called when it has stopped."""

    key: Key


@dataclass(slots=True, unsafe_hash=True)
class Track:
    """Carry the last answer forward to the frame, so that it is there if nobody else answers; then call `tracked`."""

    key: Key


@dataclass(slots=True, unsafe_hash=True)
class Give:
    """The answer is decided. `hold` = commit it to the outbox first and wait for `Release`.

    `link`: whose far answer it is. A tracked answer is made by whoever carries this out.
    """

    key: Key
    by: AnsweredBy
    status: Status
    reason: str
    hold: bool
    link: str = ""


@dataclass(slots=True, unsafe_hash=True)
class Release:
    """Hand a held answer to the sinks. `committed` False: its commit did not come in time."""

    key: Key
    committed: bool


@dataclass(slots=True, unsafe_hash=True)
class Shed:
    """The frame gets no answer; it is counted under `reason`."""

    key: Key
    reason: ShedReason


@dataclass(slots=True, unsafe_hash=True)
class LateFar:
    """A far result came after another answer was given."""

    key: Key


@dataclass(slots=True, unsafe_hash=True)
class SendPing:
    link: str
    nonce: int


@dataclass(slots=True, unsafe_hash=True)
class OpenFresh:
    """Open another live connection; the present one does not carry what it should."""

    link: str
    reason: str


FarAction = Encode | SendFrame | CancelFar | SendPing | OpenFresh
"""Actions that concern a link."""
Action = FarAction | StartNear | CancelNear | Track | Give | Release | Shed | LateFar

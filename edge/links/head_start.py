"""Whether a frame's head is worth a message of its own, ahead of its body: pure, told what workers saw.

A head that arrives early is judged early, and the time to its body tells the bandwidth. Where the network is so
quick that both arrive together, it only costs: over gRPC a third of the round trip, over ZeroMQ a fifth. Then they travel in one
message, but for every eighth frame, so that a network that becomes slower is noticed. A worker that did not say that it
takes such messages is sent none.
"""

WORTH_US = 1000
QUICK_FRAMES = 3
APART_EVERY = 8


class HeadStart:
    """One connection's; the first frames go apart."""

    def __init__(self) -> None:
        self._quick = 0  # frames in a row whose head gained nothing
        self._together = 0  # frames in a row sent in one message
        self._taken = False

    def welcomed(self, *, takes_frames: bool) -> None:
        """What the worker said of frames in one message."""
        self._taken = takes_frames

    def apart(self) -> bool:
        """Whether the next frame goes as head and body."""
        if not self._taken or self._quick < QUICK_FRAMES or self._together >= APART_EVERY - 1:
            self._together = 0
            return True
        self._together += 1
        return False

    def seen(self, spread_us: int) -> None:
        """A worker saw a body `spread_us` after its head; 0: they came in one message, which tells nothing."""
        if spread_us >= WORTH_US:
            self._quick = 0
        elif spread_us > 0:
            self._quick += 1

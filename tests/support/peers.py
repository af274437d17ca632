"""A connection without a transport: keeps what a service sends and can be made deaf."""

import threading
from typing import TypeVar

from protos.wire.messages import ToAgent
from tests.support.eventually import eventually

M = TypeVar("M")


class FakePeer:
    """`gone` True makes every send return False, as a lost connection does."""

    def __init__(self) -> None:
        self.gone = False
        self.closed = False
        self._lock = threading.Lock()
        self._sent: list[ToAgent] = []

    def send(self, message: ToAgent) -> bool:
        if self.gone:
            return False
        with self._lock:
            self._sent.append(message)
        return True

    def close(self) -> None:
        self.closed = True

    @property
    def sent(self) -> list[ToAgent]:
        with self._lock:
            return list(self._sent)

    def all(self, kind: type[M]) -> list[M]:
        return [m for m in self.sent if isinstance(m, kind)]

    def only(self, kind: type[M]) -> M:
        (message,) = self.all(kind)
        return message

    def wait(self, kind: type[M], count: int = 1) -> list[M]:
        """The messages of a kind once there are `count` of them."""
        return eventually(
            lambda: found if len(found := self.all(kind)) >= count else [], what=f"{count} {kind.__name__}"
        )

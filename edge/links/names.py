"""Where the name of a worker leads: every connection asks anew and takes the next of its addresses.

A name may lead to several workers, one of them frozen or gone, and the system lists them in the same order each time:
so the address that was tried longest ago is taken, lane by lane. A name server that does not answer costs bounded
time: one question is asked at a time, on a thread of its own, and meanwhile what was known last is used.
"""

import ipaddress
import socket
import threading
from collections.abc import Callable, Sequence

from protos.wire.session import Lane

LookUp = Callable[[str], Sequence[str]]

FIRST_WITHIN_S = 1.8  # an attempt has 2 s
NEWS_WITHIN_S = 0.5


def look_up(host: str) -> list[str]:
    """The addresses of a host as the system sorts them, IPv6 with its zone. OSError in words if there are none."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"{host} is no name of a host: {error}") from error
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


class Names:
    """The addresses of `address`, `host:port` with IPv6 in brackets. Thread-safe."""

    def __init__(self, address: str, *, look_up: LookUp = look_up) -> None:
        host, _, self._port = address.rpartition(":")
        self._host = host.strip("[]")
        self._look_up = look_up
        self._changed = threading.Condition()
        self._known: Sequence[str] = (self._host,) if _is_address(self._host) else ()
        self.is_address = bool(self._known)
        self._tried: dict[Lane, dict[str, int]] = {lane: {} for lane in Lane}
        self._turn = 0
        self._asking = False
        self._answers = 0
        self._failed = ""
        self._closed = False

    def __repr__(self) -> str:
        return f"<Names {self._host} {list(self._known)}>"

    @property
    def several(self) -> bool:
        """Whether another attempt would lead elsewhere."""
        return len(self._known) > 1

    def next(self, lane: Lane) -> str:
        """`address:port` to connect to now. Waits for the name server, so it is nothing for a thread that others wait
        for, unless `is_address`. OSError in words if the name leads nowhere."""
        with self._changed:
            if not self.is_address:
                self._ask_and_wait()
            if not self._known or self._closed:
                raise OSError(self._failed or f"{self._host}: the name server does not answer")
            tried = self._tried[lane]
            address = min(self._known, key=lambda known: tried.get(known, 0))
            self._turn += 1
            tried[address] = self._turn
        return f"[{address}]:{self._port}" if ":" in address else f"{address}:{self._port}"

    def close(self) -> None:
        """Whoever waits goes on, without an address."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _ask_and_wait(self) -> None:
        """Under the lock, which is given away while waiting."""
        before = self._answers
        if not self._asking:
            thread = threading.Thread(target=self._ask, name=f"name-{self._host}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                self._failed = f"{self._host} cannot be looked up: {error}"
                return
            self._asking = True
        within_s = NEWS_WITHIN_S if self._known else FIRST_WITHIN_S
        self._changed.wait_for(lambda: self._answers > before or self._closed, within_s)

    def _ask(self) -> None:
        found: Sequence[str] = ()
        failed = ""
        try:
            found = self._look_up(self._host)
        except OSError as error:
            failed = f"{self._host}: {error.strerror or error}"
        with self._changed:
            self._asking = False
            self._answers += 1
            self._failed = failed
            if found:  # else what was known is better than nothing
                self._known = tuple(found)
                self._tried = {
                    lane: {at: turn for at, turn in tried.items() if at in self._known}
                    for lane, tried in self._tried.items()
                }
            self._changed.notify_all()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True

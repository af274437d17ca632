"""`python -m cloud.engine FD`: an engine process, started by a worker and by nobody else.

It holds detectors, runs them on pictures in shared memory, and ends with the worker, however that ends. It opens no
port and no file of the worker's, and leaves signals that are meant for the worker to the worker.
"""

import ctypes
import faulthandler
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cloud.engine.channel import Channel, ChannelClosedError
from cloud.engine.memory import SharedMemory
from cloud.engine.messages import MalformedMessageError, Message, Say, read_cancel
from cloud.engine.recipe import EngineStart, read_start
from cloud.engine.slot_server import SlotServer
from pipelines import runtime

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
# When memory runs out, the kernel takes an engine and not the front, which can start it again.
_OOM_SCORE = 500


def main(arguments: list[str]) -> int:
    # A terminal and systemd signal the whole group: the front drains first.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    faulthandler.enable()  # a crash in C says in the log which call it was
    front = Channel(socket.socket(fileno=int(arguments[0])))
    try:
        start = read_start(front.receive().body)
    except ChannelClosedError:
        return 0
    _bind_to(start.parent, start.engine)
    logging.basicConfig(
        level=start.log_level,
        format=f"%(asctime)s %(levelname)-7s engine {start.engine}: %(name)s: %(message)s",
    )
    runtime.tune()
    _limit_threads(start.threads)
    return _serve(front, start)


def _serve(front: Channel, start: EngineStart) -> int:
    def all_loaded() -> None:
        runtime.settle()
        front.send(Message(Say.LOADED))

    left = _Countdown(len(start.slots), all_loaded)
    slots = []
    for slot in start.slots:
        memory = SharedMemory(slot.memory, slot.memory_bytes, writable=False)
        os.close(slot.memory)
        channel = Channel(socket.socket(fileno=slot.channel))
        slots.append(SlotServer(slot.recipe, channel=channel, memory=memory, loaded=left.one_more))
    for number, server in enumerate(slots):
        threading.Thread(target=_guarded, args=(server,), name=f"slot-{number}", daemon=True).start()
    try:
        while True:
            message = front.receive()
            if message.say is Say.CANCEL:
                slot_number, run = read_cancel(message.body)
                slots[slot_number].running.cancel(run)
    except ChannelClosedError:
        return 0


def _guarded(server: SlotServer) -> None:
    """A thread that cannot go on must not leave a process behind that looks alive."""
    try:
        server.serve()
    except BaseException:
        log.exception("this engine cannot go on")
        logging.shutdown()
        os._exit(1)


class _Countdown:
    """Calls `then` once, when `one_more` was called as often as there are slots."""

    def __init__(self, slots: int, then: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._left = slots
        self._then = then

    def one_more(self) -> None:
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if last:
            with suppress(ChannelClosedError):
                self._then()


def _bind_to(parent: int, engine: int) -> None:
    """End with the parent even while stopped or inside a loop that never comes back: the kernel sees to it."""
    with suppress(OSError, AttributeError):
        prctl = ctypes.CDLL(None).prctl
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        prctl(_PR_SET_NAME, f"nearfar-eng-{engine}".encode(), 0, 0, 0)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))
    if os.getppid() != parent:  # it ended before we asked
        os._exit(0)


def _limit_threads(threads: int) -> None:
    """OpenCV would take every core for itself in each engine."""
    import cv2  # noqa: PLC0415 - after the environment is set up

    cv2.setNumThreads(threads)


if __name__ == "__main__":
    with suppress(MalformedMessageError):
        os._exit(main(sys.argv[1:]))
    os._exit(1)

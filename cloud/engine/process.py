"""One engine process as the front holds it: started once, told what to hold, ended once, and never started again.

It inherits the descriptors of its channels and memories and nothing else: no listening socket, no file of the store.
Standard output belongs to the front's ready line, so what a model prints there goes to standard error.
"""

import errno
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cloud.engine.channel import Channel, ChannelClosedError
from cloud.engine.memory import SharedMemory
from cloud.engine.messages import (
    Loaded,
    MalformedMessageError,
    Message,
    Say,
    pack_cancel,
    read_error,
    read_loaded,
)
from cloud.engine.recipe import EngineStart, Recipe, SlotStart, pack_start
from pipelines.errors import Fatal, NearfarError

log = logging.getLogger(__name__)

_CAUSE_WITHIN_S = 0.03
_END_WITHIN_S = 1.0
_ADVICE = {
    errno.EMFILE: ": raise its limit of open files (ulimit -n, LimitNOFILE), or lower processes or instances",
    errno.ENFILE: ": raise the machine's limit of open files (fs.file-max), or lower processes or instances",
    errno.ENOMEM: ": give it more memory, or lower processes, instances or limits.pixels",
    errno.EAGAIN: ": raise its limit of processes (ulimit -u, TasksMax, a container's pids limit), or lower processes",
    errno.EFBIG: ": raise its limit of file sizes (ulimit -f, LimitFSIZE): pictures are shared in memory that counts as a file",
}


class Slot:
    """One detector of one engine: the channel its runs go over, the memory their pictures lie in. `using` is held for
    a run, and by whoever closes it."""

    def __init__(self, channel: Channel, memory: SharedMemory) -> None:
        self.channel = channel
        self.memory = memory
        self.using = threading.Lock()
        self.loaded: Loaded | None = None
        self._asked = False

    def ask(self) -> None:
        """Have the engine load it. Raises ChannelClosedError."""
        self._asked = True
        self.loaded = None
        self.channel.send(Message(Say.LOAD))

    def wait_loaded(self, within_s: float) -> Loaded:
        """What the detector is, once it is loaded. Raises what loading it raised, ChannelClosedError, ChannelTimeoutError."""
        with self.using:
            if self.loaded is not None:
                return self.loaded
            if not self._asked:
                self.ask()
            message = self.channel.receive(within_s)
            self._asked = False
            if message.say is Say.FAILED:
                raise read_error(message.body)
            if message.say is not Say.READY:
                raise MalformedMessageError(f"asked to load, an engine says {message.say.name}")
            self.loaded = read_loaded(message.body)
            return self.loaded

    def is_loaded(self) -> bool:
        """Whether it can be run now."""
        try:
            self.wait_loaded(0.0)
        except NearfarError:
            return False
        return True


class EngineProcess:
    """Raises Fatal when none can be started. Call from a thread that lives as long as the process is wanted: the kernel
    ends a process with the thread that started it."""

    def __init__(
        self, number: int, recipes: Sequence[Recipe], *, memory_bytes: int, threads: int, log_level: int
    ) -> None:
        self.number = number
        self.gone = threading.Event()
        self.loaded_us = 0  # when every detector of it could be used; set by whoever listens to `control`
        self._ended_by = ""
        self._reaped = threading.Event()
        self.slots: list[Slot] = []
        starts: list[SlotStart] = []
        theirs, files = list[socket.socket](), list[int]()
        self._channels: list[Channel] = []
        try:
            self.control, line = Channel.pair()
            self._channels.append(self.control)
            theirs.append(line)
            for recipe in (r for r in recipes for _ in range(r.instances)):
                channel, line = Channel.pair()
                self._channels.append(channel)
                theirs.append(line)
                memory, file = SharedMemory.create(memory_bytes)
                files.append(file)
                self.slots.append(Slot(channel, memory))
                starts.append(
                    SlotStart(recipe=recipe, channel=line.fileno(), memory=file, memory_bytes=memory_bytes)
                )
            self._popen = _spawn(theirs[0].fileno(), [*(s.fileno() for s in theirs), *files])
        except OSError as error:
            for channel in self._channels:
                channel.close()
            advice = _ADVICE.get(error.errno or 0, "")
            raise Fatal(f"no engine process could be started: {error.strerror}{advice}") from error
        finally:
            for line in theirs:
                line.close()
            for file in files:
                os.close(file)
        start = EngineStart(
            engine=number, parent=os.getpid(), threads=threads, log_level=log_level, slots=tuple(starts)
        )
        try:
            self.control.send(Message(Say.START, 0, pack_start(start)))
            for slot in self.slots:
                slot.ask()
        except ChannelClosedError:
            pass  # it has ended already, which its control channel says to whoever listens

    @property
    def pid(self) -> int:
        return self._popen.pid

    def cancel(self, slot: int, run: int) -> None:
        """Ask for the end of a run; what the engine has not read by then is as good as asked."""
        with suppress(ChannelClosedError):  # then the run ends with its engine
            self.control.send(Message(Say.CANCEL, 0, pack_cancel(slot, run)))

    def kill(self, why: str) -> None:
        """End it now, whatever it does; `why` is what people read. Nobody gets it to run in any more."""
        if not self.gone.is_set() and not self._ended_by:
            self._ended_by = why
        self.gone.set()
        self._popen.kill()

    def cause(self, within_s: float = _CAUSE_WITHIN_S) -> str:
        """Why it ended, in words, waiting a moment for the keeper to know."""
        self._reaped.wait(within_s)
        return self._ended_by or "ended"

    def reap(self, within_s: float) -> None:
        """Wait for its end; then its cause is known. For the keeper."""
        try:
            code = self._popen.wait(within_s)
        except subprocess.TimeoutExpired:
            return
        self._ended_by = self._ended_by or _words(code)
        self._reaped.set()

    def end(self, within_s: float = _END_WITHIN_S) -> None:
        """End it, as there is nothing it would have to finish, and give back what was shared with it. Call once.

        Only a process inside the kernel, on a dead disk say, can outlast it: that one ends when the disk lets it.
        """
        self.kill("was stopped")
        for channel in self._channels:
            channel.hang_up()
        self.reap(within_s)
        if not self._reaped.is_set():
            log.warning("engine %d (process %d) does not end, though it was killed", self.number, self.pid)
        self.control.close()
        for slot in self.slots:
            with slot.using:  # whoever waited for a run has been told
                slot.channel.close()
                slot.memory.close()


def _spawn(control: int, files: Sequence[int]) -> "subprocess.Popen[bytes]":
    closed = sys.__stderr__ is None  # from the start: what has its number now is no place for words
    here = [path or str(Path.cwd()) for path in sys.path]
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-P", "-m", "cloud.engine", str(control)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if closed else 2,
        stderr=subprocess.DEVNULL if closed else None,
        pass_fds=files,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(here)},
    )


def _words(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    if code == -signal.SIGKILL:
        return "was killed (SIGKILL): by a person, or by the kernel for want of memory"
    try:
        return f"crashed ({signal.Signals(-code).name})"
    except ValueError:
        return f"was ended by signal {-code}"

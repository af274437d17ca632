"""An impaired stream relay in user space: anyone can rehearse a bad link, without privileges.

Each direction has a one-way delay (half the round trip), a rate shared by all connections and a bounded queue
behind which TCP pushes back. `stall` moves nothing while every connection stays up (a blackhole that holds);
`reset` ends every connection with RST and refuses new ones. Bytes never overtake each other.
"""

import asyncio
import contextlib
import logging
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Literal

from pipelines.errors import ConfigError, Fatal
from pipelines.runtime import monotonic_us

log = logging.getLogger(__name__)

State = Literal["pass", "stall", "reset"]
STATES: tuple[State, ...] = ("pass", "stall", "reset")
CHUNK_BYTES = 16_384
QUEUE_S = 0.2
UNLIMITED_QUEUE_BYTES = 16 << 20
SOCKET_BUFFER_BYTES = 262_144
START_WITHIN_S = 5.0


@dataclass(slots=True)
class Direction:
    """One way: `bytes_per_s` None = no limit; `free_s` when the bottleneck is free again."""

    delay_s: float = 0.0
    bytes_per_s: float | None = None
    free_s: float = 0.0
    bytes: int = 0

    def leave_s(self, size: int, now_s: float) -> float:
        """When `size` bytes that arrive now have passed the bottleneck."""
        if self.bytes_per_s is None:
            return now_s
        self.free_s = max(now_s, self.free_s) + size / self.bytes_per_s
        return self.free_s

    @property
    def queue_bytes(self) -> int:
        if self.bytes_per_s is None:
            return UNLIMITED_QUEUE_BYTES
        return max(CHUNK_BYTES, int(self.bytes_per_s * (QUEUE_S + self.delay_s)))


class Relay:
    """Listens on `listen` and passes on to `to`, both `HOST:PORT` (port 0: any free one).

    Its event loop runs on a thread of its own; every method may be called from any other thread.
    """

    def __init__(self, listen: str, to: str) -> None:
        self._listen = parse_address(listen)
        self._to = parse_address(to)
        self.up = Direction()
        self.down = Direction()
        self.state: State = "pass"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._started = threading.Event()
        self._failure: OSError | None = None
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._flowing: asyncio.Event | None = None

    @property
    def address(self) -> str:
        """`HOST:PORT` it listens on."""
        return f"{self._listen[0]}:{self._listen[1]}"

    def start(self) -> None:
        """Raises ConfigError when it cannot listen."""
        self._thread.start()
        if not self._started.wait(START_WITHIN_S):
            raise Fatal("the relay did not start")
        if self._failure is not None:
            words = f"{self._failure.strerror}; choose another --listen"
            raise ConfigError(f"cannot listen on {self.address}: {words}") from self._failure

    def set(
        self, *, rtt_ms: float | None = None, rate_mbit: float | None = None, state: State | None = None
    ) -> int:
        """Change what is given, now; returns the moment of effect in µs of the monotonic clock.

        `rate_mbit` 0 = no limit.
        """
        if state is not None and state not in STATES:
            raise ConfigError(f"a relay has no state {state!r}; it has {', '.join(STATES)}")
        change = asyncio.run_coroutine_threadsafe(self._change(rtt_ms, rate_mbit, state), self._loop)
        return change.result(START_WITHIN_S)

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(2)

    # -- the loop -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._flowing = asyncio.Event()
        self._flowing.set()
        try:
            self._loop.run_until_complete(self._open())
        except OSError as error:
            self._failure = error
            self._started.set()
            self._loop.close()
            return
        self._started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _open(self) -> None:
        host, port = self._listen
        sock = socket.create_server((host, port), backlog=128, reuse_port=False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER_BYTES)
        self._listen = (host, sock.getsockname()[1])
        self._server = await asyncio.start_server(self._accepted, sock=sock)

    async def _end(self) -> None:
        await self._cut()
        # Whatever is being accepted at this moment too; its transport closes in the turns after its task.
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._turns()

    @staticmethod
    async def _turns() -> None:
        """Enough of the loop's turns for a socket to become a transport, or for a transport to close."""
        for _ in range(4):
            await asyncio.sleep(0)

    async def _change(self, rtt_ms: float | None, rate_mbit: float | None, state: State | None) -> int:
        for way in (self.up, self.down):
            if rtt_ms is not None:
                way.delay_s = rtt_ms / 2000
            if rate_mbit is not None:
                way.bytes_per_s = rate_mbit * 1e6 / 8 if rate_mbit > 0 else None
        if state is not None and state != self.state:
            before, self.state = self.state, state
            assert self._flowing is not None  # noqa: S101 - made before the loop runs
            if state == "pass":
                self._flowing.set()
            else:
                self._flowing.clear()
            if state == "reset":
                await self._cut()
            elif before == "reset":
                await self._open()
        return monotonic_us()

    async def _cut(self) -> None:
        """End the listener and every connection, with RST."""
        server, self._server = self._server, None
        if server is not None:
            # A connection whose accepting is under way when its server closes is lost to asyncio and stays
            # open: accept no more, let those become transports (and be reset), close then.
            for sock in server.sockets:
                self._loop.remove_reader(sock.fileno())
            await self._turns()
            server.close()
        for writer in tuple(self._writers):
            _reset(writer)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:  # accepted just before the reset, too late to be among those it ended
            _reset(writer)
            return
        self._writers.add(writer)
        task = asyncio.ensure_future(self._carry(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until either side ends."""
        onward: asyncio.StreamWriter | None = None
        try:
            far_reader, onward = await asyncio.open_connection(*self._to)
            self._writers.add(onward)
            for end in (writer, onward):
                end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await _first(
                self._pump(reader, onward, self.up),
                self._pump(far_reader, writer, self.down),
            )
        except OSError as error:
            log.debug("relay: %s", error)
        finally:
            for used in (writer, onward):
                if used is not None:
                    self._writers.discard(used)
                    used.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Direction) -> None:
        await _first(*Pump(reader, writer, way, self._flowing).halves())


class Pump:
    """One direction of one connection: what is read waits its delay in order, then is written."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        way: Direction,
        flowing: asyncio.Event | None,
    ) -> None:
        assert flowing is not None  # noqa: S101 - made before the loop runs
        self._reader = reader
        self._writer = writer
        self._way = way
        self._flowing = flowing
        self._queue: deque[tuple[float, bytes]] = deque()
        self._queued_bytes = 0
        self._changed = asyncio.Event()
        self._last_due_s = 0.0
        self._ended = False

    def halves(self) -> tuple[Coroutine[Any, Any, None], Coroutine[Any, Any, None]]:
        return self._fill(), self._empty()

    async def _fill(self) -> None:
        while not self._ended:
            await self._flowing.wait()
            while self._queued_bytes >= self._way.queue_bytes:
                self._changed.clear()
                await self._changed.wait()
            chunk = await self._reader.read(CHUNK_BYTES)
            self._ended = not chunk
            now_s = time.monotonic()
            due_s = self._way.leave_s(len(chunk), now_s) + self._way.delay_s
            self._last_due_s = max(self._last_due_s, due_s)
            self._queue.append((self._last_due_s, chunk))
            self._queued_bytes += len(chunk)
            self._changed.set()
        await asyncio.Event().wait()  # the other half ends the pump once everything is out

    async def _empty(self) -> None:
        while True:
            while not self._queue:
                self._changed.clear()
                await self._changed.wait()
            due_s, chunk = self._queue[0]
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            await self._flowing.wait()
            self._queue.popleft()
            self._queued_bytes -= len(chunk)
            self._changed.set()
            if not chunk:
                return
            self._writer.write(chunk)
            self._way.bytes += len(chunk)
            await self._writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with RST."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _first(*halves: Coroutine[Any, Any, None]) -> None:
    """Until the first of `halves` ends; the others are cancelled. Its error, if any, is raised."""
    tasks = [asyncio.ensure_future(half) for half in halves]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT` as a pair. Raises ConfigError."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"{text!r} is no address; write HOST:PORT, e.g. 127.0.0.1:7440")
    return host.strip("[]"), int(port)

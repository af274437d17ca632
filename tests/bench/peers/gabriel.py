"""Gabriel: client, server and cognitive engine, gRPC on both hops, eight tokens.

Its clock runs inside the client's event loop, from the producer having the payload until the consumer has the
result: no thread is woken for the benchmark's sake. `frame_id`, which its own protocol returns, says whose result it is.
An engine as quick as this one can answer before the server (5.2.0) has noted that it was asked: that result is lost, and
the client waits for ever. Such a round is empty and everything is started anew.
"""

import asyncio
import multiprocessing
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from gabriel_protocol.v1 import gabriel_pb2

from tests.bench.peers.base import HOST, check, free_port, patiently, per_second, result, since_us

_TOKENS = 8
_ENGINE = "frames"
_QUEUE = 60
_ANSWER_WITHIN_S = 8.0


def _run_engine(port: int) -> None:
    from gabriel_server import cognitive_engine  # noqa: PLC0415 - a process of its own
    from gabriel_server.network_engine.engine_runner import EngineRunner  # noqa: PLC0415

    class Engine(cognitive_engine.Engine):  # type: ignore[misc] # untyped
        def handle(self, frame: Any, client_info: object) -> Any:
            success = gabriel_pb2.Status(code=gabriel_pb2.StatusCode.SUCCESS)
            return cognitive_engine.Result(success, result(0, frame.byte_payload))

    EngineRunner(Engine(), _ENGINE, f"{HOST}:{port}").run()


@contextmanager
def serving() -> Iterator[int]:
    from gabriel_server.network_engine.server_runner import ServerRunner  # noqa: PLC0415 - the client needs none of it

    port, engine_port = free_port(), free_port()
    server = ServerRunner(port, engine_port, _TOKENS, _QUEUE, prometheus_port=free_port())
    threading.Thread(target=server.run, daemon=True).start()
    engine = multiprocessing.get_context("spawn").Process(
        target=_run_engine, args=(engine_port,), daemon=True
    )
    engine.start()
    try:
        yield port
    finally:
        engine.terminate()
        engine.join(5.0)


class _Run:
    """So many frames with `window` on their way; `done` gives the µs each took."""

    def __init__(self, body: bytes, *, frames: int, window: int) -> None:
        self.body = body
        self.to_send = frames
        self.to_come = frames
        self.may_send = asyncio.Semaphore(window)
        self.took_us: list[float] = []
        self.done: Future[list[float]] = Future()


class Client:
    """An asyncio client in a thread of its own, whose producer waits until there is something to send."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._session: Future[None] | None = None
        patiently(self._connect)

    def closed(self, body: bytes, *, frames: int) -> list[float]:
        return self._measure(body, frames=frames, window=1, within_s=_ANSWER_WITHIN_S)

    def flow(self, body: bytes, *, frames: int, window: int) -> float:
        if window > _TOKENS:
            raise ValueError(f"the server gives {_TOKENS} tokens")
        begun_ns = time.perf_counter_ns()
        self._measure(body, frames=frames, window=window, within_s=_ANSWER_WITHIN_S)
        return per_second(frames, begun_ns)

    def close(self) -> None:
        self._hang_up()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5.0)

    def _connect(self) -> None:
        """The server refuses frames, and the client gives up, until the engine has come."""
        self._hang_up()
        self._runs: asyncio.Queue[_Run] = asyncio.Queue()
        self._run: _Run | None = None
        self._begun_ns = [0]  # by frame_id, which counts from 1
        self._session = asyncio.run_coroutine_threadsafe(self._serve(), self._loop)
        self._measure(b"1", frames=1, window=1, within_s=2.0)

    def _hang_up(self) -> None:
        if self._session is not None:
            self._session.cancel()

    async def _serve(self) -> None:
        from gabriel_client.gabriel_client import InputProducer  # noqa: PLC0415 - the server needs none of it
        from gabriel_client.grpc_client import GrpcClient  # noqa: PLC0415

        producer = InputProducer(self._produce, [_ENGINE], "bench")
        await GrpcClient(f"{HOST}:{self._port}", [producer], self._consume, free_port()).launch_async()

    def _measure(self, body: bytes, *, frames: int, window: int, within_s: float) -> list[float]:
        run = _Run(body, frames=frames, window=window)
        self._loop.call_soon_threadsafe(self._runs.put_nowait, run)
        try:
            return run.done.result(within_s)
        except TimeoutError as error:
            raise RuntimeError(f"{run.to_come} of {frames} frames were never answered") from error

    async def _produce(self) -> Any:
        if self._run is None or not self._run.to_send:
            self._run = await self._runs.get()
        await self._run.may_send.acquire()
        self._run.to_send -= 1
        self._begun_ns.append(time.perf_counter_ns())
        return gabriel_pb2.InputFrame(payload_type=gabriel_pb2.PayloadType.IMAGE, byte_payload=self._run.body)

    def _consume(self, answer: Any) -> None:
        run = self._run
        if run is None or run.done.done():
            return
        run.took_us.append(since_us(self._begun_ns[answer.frame_id]))
        try:
            check(answer.bytes_result, 0, run.body)
        except RuntimeError as wrong:
            run.done.set_exception(wrong)
            return
        run.to_come -= 1
        run.may_send.release()
        if not run.to_come:
            run.done.set_result(run.took_us)

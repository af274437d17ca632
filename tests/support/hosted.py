"""A stream listener behind a gRPC server that is not ours, as Ray Serve's replica has it: asyncio's, on one thread."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from cloud.listeners.grpc.servicer import add_lanes
from cloud.listeners.grpc.streams import StreamListener
from protos.wire.session import Lane
from tests.support.workers import clock_us

Serve = Callable[[Lane, AsyncIterator[bytes]], AsyncIterator[bytes]]


class _Servicer:
    """gRPC's two methods from whatever gives the replies of a stream."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve

    async def Live(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:  # noqa: N802
        async for data in self._serve(Lane.LIVE, requests):
            yield data

    async def Bulk(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:  # noqa: N802
        async for data in self._serve(Lane.BULK, requests):
            yield data


@contextmanager
def hosted(endpoint: Any, **options: Any) -> Iterator[tuple[str, StreamListener]]:
    """`(grpc://host:port, listener)`."""
    listener = StreamListener(endpoint, **({"clock_us": clock_us} | options))
    with host(listener.serve) as address:
        try:
            yield address, listener
        finally:
            listener.stop()


@contextmanager
def host(serve: Serve) -> Iterator[str]:
    """The server's `grpc://host:port`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="host")
    thread.start()

    async def start() -> tuple[Any, int]:
        server = grpc.aio.server(options=(("grpc.max_receive_message_length", -1),))
        add_lanes(_Servicer(serve), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        return server, port

    async def stop(server: Any) -> None:
        await server.stop(None)
        await server.wait_for_termination()
        await asyncio.get_running_loop().shutdown_asyncgens()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    server, port = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield f"grpc://127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(stop(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
        del server, loop
        gc.collect()  # gRPC's own thread ends with the last server that nobody holds

"""HTTP upload as the tutorials have it: `requests` posts a multipart form, FastAPI reads an `UploadFile`.

Kept-alive connections, uvicorn with uvloop and httptools; several on their way are as many threads, each with a session.
"""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import requests
import uvicorn
from fastapi import FastAPI, Response, UploadFile

from tests.bench.peers.base import HOST, check, free_port, in_turn, patiently, per_second, result, since_us

_THREADS = 8


@contextmanager
def serving() -> Iterator[int]:
    app = FastAPI()

    async def frame(seq: int, file: UploadFile) -> Response:
        return Response(result(seq, await file.read()), media_type="application/octet-stream")

    app.add_api_route("/frame", frame, methods=["POST"])
    port = free_port()
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            host=HOST,
            port=port,
            log_level="warning",
            access_log=False,
            loop="uvloop",
            http="httptools",
            timeout_keep_alive=600,  # while others have their turn
        )
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield port
    server.should_exit = True
    thread.join(5.0)


class Client:
    """A pool of threads that each post one frame at a time."""

    def __init__(self, port: int) -> None:
        self._url = f"http://{HOST}:{port}/frame"
        self._sessions = threading.local()
        self._pool = ThreadPoolExecutor(_THREADS)
        self._seq = 0
        patiently(lambda: self._post(0, b"1"))

    def closed(self, body: bytes, *, frames: int) -> list[float]:
        return in_turn(self._call, body, frames)

    def flow(self, body: bytes, *, frames: int, window: int) -> float:
        begun_ns = time.perf_counter_ns()
        under_way: list[Future[None]] = []
        for number in range(frames + window):
            if number >= window:
                under_way.pop(0).result()
            if number < frames:
                self._seq += 1
                under_way.append(self._pool.submit(self._post, self._seq, body))
        return per_second(frames, begun_ns)

    def close(self) -> None:
        self._pool.shutdown()

    def _call(self, body: bytes) -> float:
        self._seq += 1
        begun_ns = time.perf_counter_ns()
        self._post(self._seq, body)
        return since_us(begun_ns)

    def _post(self, seq: int, body: bytes) -> None:
        session: requests.Session | None = getattr(self._sessions, "session", None)
        if session is None:
            session = self._sessions.session = requests.Session()
            session.trust_env = False  # no proxy lies between us and loopback
        response = session.post(
            self._url, params={"seq": seq}, files={"file": ("frame.jpg", body, "image/jpeg")}, timeout=30
        )
        response.raise_for_status()
        check(response.content, seq, body)

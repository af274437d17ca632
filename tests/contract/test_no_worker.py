"""An address where something answers that is no worker: a link says so, in words, and goes on trying."""

import http.server
import re
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager

import grpc
import pytest
import zmq

from cloud.listeners.kinds import LISTENERS
from edge.links.base import Connected, Sent
from edge.links.kinds import LINKS
from pipelines.runtime import monotonic_us
from protos.wire.session import Ping
from tests.support.endpoints import ScriptedEndpoint
from tests.support.eventually import eventually
from tests.support.rig import free_port
from tests.support.wires import Wire


@contextmanager
def web_server() -> Iterator[int]:
    class Quiet(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def grpc_server() -> Iterator[int]:
    """Of another service: it has no such method."""
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield port
        finally:
            server.stop(0).wait()


@contextmanager
def zmq_router() -> Iterator[int]:
    """Which takes every message and answers none, as an agent's own socket would."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.set(zmq.LINGER, 0)
        yield router.bind_to_random_port("tcp://127.0.0.1")


@contextmanager
def mute() -> Iterator[int]:
    """It accepts, and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()[1]


@contextmanager
def nobody() -> Iterator[int]:
    yield free_port()


@pytest.mark.parametrize(
    ("kind", "stranger", "words"),
    [
        ("grpc", grpc_server, "no nearfar worker"),
        ("grpc", web_server, "unavailable"),
        ("grpc", mute, "no answer from the worker|unavailable"),
        ("grpc", nobody, "refused"),
        ("zmq", zmq_router, "no answer from the worker"),
        ("zmq", web_server, "no answer from the worker|connection lost"),
        ("zmq", mute, "no answer from the worker|connection lost"),
        ("zmq", nobody, "connection lost"),
    ],
)
def test_what_is_no_worker_is_told_in_words_and_tried_again(
    kind: str, stranger: Callable[[], AbstractContextManager[int]], words: str
) -> None:
    with stranger() as port, closing(Wire(kind, port)) as wire:
        said = eventually(lambda: wire.link.unanswered, 15.0, "words")
        assert re.search(words, said)
        tried = wire.link.attempts
        eventually(lambda: wire.link.attempts > tried, 15.0, "another attempt")
        assert wire.link.send(Ping(nonce=1, sent_mono_us=0)) is Sent.DOWN
        assert wire.events == []


@pytest.mark.parametrize("kind", [kind.name for kind in LINKS])
def test_once_a_worker_is_there_nothing_is_said_any_more(kind: str) -> None:
    port = free_port()
    with closing(Wire(kind, port)) as wire:
        eventually(lambda: wire.link.unanswered, 15.0, "words")
        listener = LISTENERS[kind].resolve()(
            ScriptedEndpoint(), address=f"127.0.0.1:{port}", clock_us=monotonic_us
        )
        listener.start()
        try:
            wire.wait(Connected, 2, within_s=15.0)
            assert wire.link.unanswered == ""
        finally:
            listener.stop()

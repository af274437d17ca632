"""F27: the layer of the way to a worker that fails is named, with what to do. Each one fails for real here."""

import socket
from concurrent import futures

import grpc
import pytest

from nearfar.doctor import network
from nearfar.doctor.finding import Level
from tests.support.endpoints import ScriptedEndpoint
from tests.support.patients import BEHIND, answering, assert_not_checked, failed, listening
from tests.support.rig import free_port
from tests.support.workers import service


def test_a_name_nobody_knows_is_a_failure_of_dns(patient):
    found = patient.examined(url="zmq://worker.invalid:7440")
    assert failed(found) == ["dns"]
    assert "worker.invalid cannot be resolved" in found["dns"].words
    assert_not_checked(found, ["tcp", *BEHIND], "dns")


def test_a_port_where_nobody_listens_is_a_failure_of_tcp(patient):
    found = patient.examined(url=f"zmq://127.0.0.1:{free_port()}")
    assert failed(found) == ["tcp"]
    assert "connection refused" in found["tcp"].words
    assert "start the worker" in found["tcp"].advice
    assert_not_checked(found, BEHIND, "tcp")


def test_a_listener_that_never_answers_is_named(patient):
    """F07, F27."""

    def mute(line: socket.socket) -> None:
        while line.recv(100):
            pass

    with answering(mute) as port:
        found = patient.examined(url=f"zmq://127.0.0.1:{port}")
    assert failed(found) == ["protocol"]
    assert "says nothing" in found["protocol"].words
    assert_not_checked(found, BEHIND[1:], "protocol")


def _web(line: socket.socket) -> None:
    line.recv(1000)
    line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize(
    ("serve", "words"),
    [
        (_web, "a web server"),
        (lambda line: line.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"), "an SSH server"),
        (lambda line: line.sendall(b"\x16\x00hello"), "something that begins with 16 00 68"),
    ],
    ids=["web", "ssh", "unknown"],
)
def test_another_program_on_the_port_is_named(patient, serve, words):
    with answering(serve) as port:
        found = patient.examined(url=f"zmq://127.0.0.1:{port}")
    assert failed(found) == ["protocol"]
    assert found["protocol"].words.startswith(words)
    assert found["protocol"].words.endswith(f" answers on port {port}, not ZeroMQ")


def test_a_grpc_port_under_a_zmq_url_is_told_how_to_be_written(patient):
    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        found = patient.examined(url=f"zmq://127.0.0.1:{port}")
        right = network.check_answer(network.Address.of(f"grpc://127.0.0.1:{port}"), "127.0.0.1")
    finally:
        server.stop(0).wait()
    assert "gRPC (HTTP/2) answers" in found["protocol"].words
    assert f"write grpc://127.0.0.1:{port}" in found["protocol"].advice
    assert right.level is Level.OK


def test_a_zmq_port_under_a_grpc_url_is_told_how_to_be_written(tmp_path):
    with listening(ScriptedEndpoint()) as url:
        address = network.Address.of(url.replace("zmq://", "grpc://"))
        told = network.check_answer(address, "127.0.0.1")
    assert told.level is Level.FAIL
    assert f"write {url}" in told.advice


def test_an_address_that_is_silent_leaves_the_others_their_share_of_the_time(monkeypatch):
    """A name with two addresses, the first one a machine that is off."""
    given_s = []

    def connect(where, timeout):
        given_s.append(timeout)
        if where[0] == "10.0.0.1":
            raise TimeoutError
        return socket.socket()

    monkeypatch.setattr("nearfar.doctor.network.socket.create_connection", connect)
    address = network.Address.of("zmq://worker:7440")
    told, found = network.check_port(address, ["10.0.0.1", "10.0.0.2"], limit=lambda _: 1.0)
    assert (told.level, found) == (Level.OK, "10.0.0.2")
    assert given_s[0] == pytest.approx(0.5, abs=0.05)
    assert given_s[1] > 0.9
    told, _ = network.check_port(address, ["10.0.0.1"], limit=lambda _: 0.7)
    assert told.words.endswith("no answer within 0.7 s"), "the time it had, not the one it would have liked"


def test_every_link_is_examined_and_a_layer_says_of_which_it_speaks(patient, tmp_path):
    with service(tmp_path / "worker") as (made, _), listening(made) as url:
        found = patient.examined(f"links.cable={{url: 'zmq://127.0.0.1:{free_port()}'}}", url=url)
    assert failed(found) == ["tcp cable"]
    assert found["deadline lte"].level is Level.OK
    assert found["hello cable"].level is Level.SKIPPED
    assert "tcp" not in found


def test_workers_of_one_store_are_said_to_fit_together(patient, tmp_path):
    with (
        service(tmp_path / "worker") as (made, _),
        listening(made) as url,
        service(tmp_path / "worker") as (other, _),
        listening(other) as second,
    ):
        found = patient.examined(f"links.cable={{url: '{second}'}}", url=url)
    assert failed(found) == []
    assert found["links"].words == "lte, cable lead to workers of one record store with one model"


def test_workers_an_agent_would_not_use_side_by_side_are_a_failure(patient, tmp_path):
    elsewhere = ScriptedEndpoint()
    with (
        service(tmp_path / "worker") as (made, _),
        listening(made) as url,
        listening(elsewhere) as second,
    ):
        found = patient.examined(f"links.cable={{url: '{second}'}}", url=url)
    assert failed(found)[-1] == "links"
    assert found["links"].words.startswith("link cable: this worker keeps its records in store store")
    assert "one store.url and one model" in found["links"].advice

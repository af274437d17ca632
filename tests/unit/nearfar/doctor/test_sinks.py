"""F27: an answer needs a way out. Each sink is looked at, nothing is made, and what is wrong is named with its path."""

import os
import socket
from contextlib import contextmanager

import pytest

from edge.identity import StateDir
from nearfar.doctor.finding import Level
from nearfar.doctor.sinks import check_sinks
from tests.support.receiver import Receiver
from tests.support.rig import free_port


@pytest.fixture
def look(patient):
    """What is found of one sink."""

    def at(sink, *, runs=False):
        (finding,) = check_sinks(patient.config(f"sinks=[{sink}]"), runs=runs)
        return finding

    return at


@contextmanager
def served(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        server.listen(1)
        yield


def jsonl(path):
    return f"{{kind: jsonl, path: {path}}}"


def unix(path):
    return f"{{kind: socket, path: {path}}}"


def test_standard_output_is_always_there(look):
    assert look("{kind: stdout}").level is Level.OK


def test_a_file_of_answers_that_can_be_made_or_added_to_is_well_and_left_as_it_was(look, tmp_path):
    assert look(jsonl(tmp_path / "out" / "a.jsonl")).level is Level.OK
    assert not (tmp_path / "out").exists()
    (tmp_path / "a.jsonl").write_text("{}\n")
    assert look(jsonl(tmp_path / "a.jsonl")).level is Level.OK
    assert (tmp_path / "a.jsonl").read_text() == "{}\n"


def test_a_folder_where_a_file_of_answers_should_be_fails(look, tmp_path):
    told = look(jsonl(tmp_path))
    assert told.level is Level.FAIL
    assert told.words == f"{tmp_path}: is a folder, not a file"
    assert "sinks.0.path" in told.advice


def test_a_place_nothing_can_be_written_to_fails_for_either_kind(look, tmp_path):
    (tmp_path / "file").write_text("")
    for sink in (jsonl, unix):
        for wrong in ("/proc/nearfar/answers", tmp_path / "file" / "answers"):
            assert look(sink(wrong)).level is Level.FAIL


def test_a_pipe_nobody_reads_fails_and_keeps_nobody_waiting(look, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert look(jsonl(tmp_path / "pipe")).level is Level.FAIL


def test_a_socket_somebody_serves_fails_unless_it_is_the_running_agent_s_own(look, tmp_path):
    path = tmp_path / "answers.sock"
    with served(path):
        told = look(unix(path))
        assert told.level is Level.FAIL
        assert "is served by another program" in told.words
        assert look(unix(path), runs=True).level is Level.OK
    left = look(unix(path))
    assert left.level is Level.OK
    assert "replaced at start" in left.words
    assert path.exists()


def test_a_file_that_is_no_socket_fails(look, tmp_path):
    (tmp_path / "answers.sock").write_text("mine")
    assert "is no socket" in look(unix(tmp_path / "answers.sock")).words


def test_the_sinks_are_part_of_an_examination(patient, tmp_path):
    held = StateDir(tmp_path / "gateway")
    try:
        found = patient.examined(f"sinks=[{jsonl(tmp_path)}]", "links={}")
    finally:
        held.close()
    assert found["sink jsonl"].level is Level.FAIL


def test_a_receiver_that_can_be_reached_is_well_and_gets_nothing(look):
    with Receiver() as receiver:
        told = look(f"{{kind: webhook, url: '{receiver.url}'}}")
        assert (told.level, told.words) == (Level.OK, f"127.0.0.1:{receiver.port} can be reached")
        assert receiver.requests == []


def test_a_receiver_that_is_away_is_a_warning_with_where_answers_wait(look):
    port = free_port()
    for kind, url in (("mqtt", f"mqtt://127.0.0.1:{port}"), ("webhook", f"http://127.0.0.1:{port}/x")):
        told = look(f"{{kind: {kind}, url: '{url}', durable: true}}")
        assert told.level is Level.WARN
        assert f"127.0.0.1:{port}: Connection refused; answers would wait for it on disk" in told.words
    told = look(f"{{kind: webhook, name: plant, url: 'http://127.0.0.1:{port}/'}}")
    assert told.layer == "sink plant"
    assert "in memory, until the agent ends" in told.words


def test_a_secret_that_is_missing_fails_because_the_agent_would_not_start(look, tmp_path):
    (tmp_path / "empty").touch()
    told = look(f"{{kind: webhook, url: 'https://h/', token_file: {tmp_path / 'empty'}}}")
    assert told.level is Level.FAIL
    assert "is empty" in told.words
    told = look("{kind: webhook, url: 'https://h/', token_env: NEARFAR_NO_SUCH_TOKEN}")
    assert "NEARFAR_NO_SUCH_TOKEN is empty or not set" in told.words
    (tmp_path / "ca").write_text("nonsense")
    told = look(f"{{kind: mqtt, url: 'mqtts://h', tls: {{ca: {tmp_path / 'ca'}}}}}")
    assert "holds no certificate" in told.words

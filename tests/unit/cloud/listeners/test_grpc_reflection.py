"""Reflection: who has no contract at hand lists what a worker offers, and asks it."""

import queue
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (  # type: ignore[import-untyped]
    ProtoReflectionDescriptorDatabase,
)

from cloud.listeners.grpc import methods as grpc_methods
from cloud.listeners.grpc.reflection import MOST_ASKERS
from cloud.listeners.kinds import REFLECTION
from nearfar.cli import check, main
from pipelines.errors import ConfigError
from protos.wire import envelope
from tests.support.agents import HELLO, agent
from tests.support.eventually import eventually
from tests.support.grey_picture import grey_picture
from tests.support.simple_worker import worker_in

PATH = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
LIST_SERVICES = b"\x3a\x00"  # a request with an empty list_services


def test_a_client_without_the_contract_lists_builds_and_asks(tmp_path: Path) -> None:
    with worker_in(tmp_path, reflection=True) as worker:
        found = ProtoReflectionDescriptorDatabase(worker.channel)
        assert set(found.get_services()) == {
            "grpc.health.v1.Health",
            "grpc.reflection.v1alpha.ServerReflection",
            "nearfar.v1.Inference",
        }
        method = DescriptorPool(found).FindServiceByName(envelope.SERVICE).methods_by_name["Infer"]
        request = message_factory.GetMessageClass(method.input_type)
        reply = message_factory.GetMessageClass(method.output_type)
        ask: Any = worker.channel.unary_unary(envelope.INFER, request.SerializeToString, reply.FromString)
        assert [box.label for box in ask(request(data=grey_picture()), timeout=20).boxes] == ["thing"]


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_both_names_of_reflection_are_answered(tmp_path: Path, version: str) -> None:
    with worker_in(tmp_path, reflection=True) as worker:
        ask: Any = worker.channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo", None, None
        )
        (answer,) = ask(iter([LIST_SERVICES]), timeout=20)
        assert b"nearfar.v1.Inference" in answer


def test_a_worker_that_was_not_told_to_reflects_nothing(tmp_path: Path) -> None:
    with worker_in(tmp_path) as worker, pytest.raises(grpc.RpcError) as caught:
        ProtoReflectionDescriptorDatabase(worker.channel).get_services()
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


def test_more_askers_than_there_are_places_are_refused_and_agents_still_served(tmp_path: Path) -> None:
    with worker_in(tmp_path, reflection=True) as worker:
        ask: Any = worker.channel.stream_stream(PATH, None, None)
        said: list[queue.SimpleQueue[bytes | None]] = [queue.SimpleQueue() for _ in range(MOST_ASKERS)]
        held = [ask(iter(one.get, None), timeout=60) for one in said]
        for one, answers in zip(said, held, strict=True):
            one.put(LIST_SERVICES)
            next(answers)  # and its stream stays open
        with pytest.raises(grpc.RpcError, match="close one of them"):
            next(ask(iter([LIST_SERVICES]), timeout=20))
        with agent(worker.listener.address) as gateway:
            gateway.send(HELLO)
            gateway.receive()
        said[0].put(None)
        assert list(held[0]) == []
        eventually(lambda: _is_answered(ask), what="the place of the one that left")
        for one in said:
            one.put(None)


def _is_answered(ask: Any) -> bool:
    try:
        return bool(next(ask(iter([LIST_SERVICES]), timeout=20)))
    except grpc.RpcError:
        return False


def test_without_the_extra_the_error_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lacking = replace(REFLECTION, needs=("no_such_module",))
    monkeypatch.setattr(grpc_methods, "REFLECTION", lacking)
    with pytest.raises(ConfigError, match=r"pip install 'nearfar\[reflection\]'"), ExitStack() as stack:
        stack.enter_context(worker_in(tmp_path, reflection=True))
    monkeypatch.setattr(check, "REFLECTION", lacking)
    file = tmp_path / "w.yaml"
    file.write_text(
        "version: 1\nlisten: {grpc: {address: '127.0.0.1:0', reflection: true}}\n"
        "models: {rehearsal: {detector: {kind: synthetic}}}\n"
    )
    assert main.run(["check", str(file)]) == 2
    assert "listen.grpc.reflection: reflection needs no_such_module" in capsys.readouterr().err

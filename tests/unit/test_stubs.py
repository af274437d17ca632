"""The committed stubs are what the contract generates, and the contract says what every field means."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from protos import inference_pb2 as pb

ROOT = Path(__file__).parents[2]
PROTO = ROOT / "protos" / "inference.proto"
UNITS = ("_us", "_px", "_bytes", "_zstd", "sha256")
# Names that say it all: identities, text for people, counts of the thing named, and nested messages.
PLAIN = {
    "name", "agent", "run", "stream", "seq", "lane", "model", "codec", "batch", "reason", "text", "detail",
    "labels", "frames", "bytes", "queue_frames", "nonce", "late_far", "on_time", "priority", "id", "status",
    "answered_by", "data", "store_id", "index", "channels",
}  # fmt: skip
FIELD = re.compile(r"^\s+(?:repeated )?(?P<type>[\w.<>, ]+?) (?P<name>\w+) = (?P<number>\d+);(?P<rest>.*)$")


def committed() -> FileDescriptorProto:
    out = FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(out)
    return out


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with stubs and descriptors made from the contract now."""
    pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed")
    out = tmp_path_factory.mktemp("stubs")
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"--python_out={out}", f"--pyi_out={out}"]
    command += [f"--descriptor_set_out={out}/set", "protos/inference.proto"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


def test_the_committed_stub_describes_what_the_contract_says_today(generated: Path) -> None:
    (made,) = FileDescriptorSet.FromString((generated / "set").read_bytes()).file
    made.ClearField("source_code_info")
    ours = committed()
    for either in (made, ours):  # derived from the field's name; some generators write it, some do not
        for message in either.message_type:
            for field in [*message.field, *(f for nested in message.nested_type for f in nested.field)]:
                field.ClearField("json_name")
    assert ours.SerializeToString(deterministic=True) == made.SerializeToString(deterministic=True)


def test_the_committed_type_stub_is_the_generated_one(generated: Path) -> None:
    assert (ROOT / "protos/inference_pb2.pyi").read_text() == (
        generated / "protos/inference_pb2.pyi"
    ).read_text()


def test_every_field_of_every_message_has_a_unit_a_comment_or_a_name_that_says_it_all() -> None:
    silent: list[str] = []
    found = 0
    message = ""
    enums_and_messages = {m.name for m in committed().message_type} | {e.name for e in committed().enum_type}
    for line in PROTO.read_text().splitlines():
        if opened := re.match(r"message (\w+) \{", line):
            message = opened[1]
        field = FIELD.match(line)
        if field is None:
            continue
        found += 1
        explained = (
            "//" in field["rest"]
            or field["name"].endswith(UNITS)
            or field["name"] in PLAIN
            or field["type"] in enums_and_messages
        )
        if not explained:
            silent.append(f"{message}.{field['name']}")
    assert found == sum(len(m.field) for m in committed().message_type)
    assert silent == []


def test_a_time_or_size_on_the_wire_carries_its_unit_in_its_name() -> None:
    bare = re.compile(r"(?:^|_)(delay|duration|age|latency|width|height|size|length|timeout|ms|s)$")
    fields = [f"{m.name}.{f.name}" for m in committed().message_type for f in m.field]
    assert [name for name in fields if bare.search(name)] == []


def test_field_and_kind_numbers_fit_the_one_byte_the_wire_gives_a_kind() -> None:
    for union in (pb.ToWorker.DESCRIPTOR, pb.ToAgent.DESCRIPTOR):
        assert {f.number for f in union.fields} == set(range(1, len(union.fields) + 1))
        assert len(union.fields) < 256


def test_nobody_uses_generated_services() -> None:
    sources = [
        p
        for top in ("pipelines", "protos", "edge", "cloud", "nearfar", "tests")
        for p in (ROOT / top).rglob("*.py")
    ]
    assert len(sources) > 50
    users = [
        p.name for p in sources if re.search(r"^\s*(from|import) .*_pb2_grpc", p.read_text(), re.MULTILINE)
    ]
    assert users == []
    assert list(ROOT.glob("protos/*_pb2_grpc.py")) == []

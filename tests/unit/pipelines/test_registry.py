"""Every kind names code that exists, on its own floor or a lower one, and nothing is imported before use."""

import subprocess
import sys
from importlib.util import find_spec
from typing import get_args

import pytest

import cloud.deploy.kinds
import cloud.listeners.kinds
import cloud.store.kinds
import edge.capture.kinds
import edge.config.scheduler
import edge.links.kinds
import edge.sinks.kinds
import pipelines.blocks
import pipelines.codecs.kinds
import pipelines.detectors.kinds
import pipelines.gates.kinds
import pipelines.trackers.kinds
from edge.scheduling.policies import POLICIES
from pipelines.diagnosis import blocks_of, kinds_of
from pipelines.errors import ConfigError
from pipelines.registry import Family, Kind

FLOORS = {
    "pipelines": ("pipelines",),
    "edge": ("edge", "protos", "pipelines"),
    "cloud": ("cloud", "protos", "pipelines"),
}
FAMILIES = {
    "pipelines": (
        pipelines.detectors.kinds.DETECTORS,
        pipelines.codecs.kinds.CODECS,
        pipelines.gates.kinds.GATES,
        pipelines.trackers.kinds.TRACKERS,
    ),
    "edge": (
        edge.capture.kinds.SOURCES,
        edge.sinks.kinds.SINKS,
        edge.links.kinds.LINKS,
        edge.config.scheduler.POLICIES,
    ),
    "cloud": (cloud.listeners.kinds.LISTENERS, cloud.store.kinds.STORES, cloud.deploy.kinds.DEPLOYMENTS),
}
KINDS = [(floor, kind) for floor, families in FAMILIES.items() for family in families for kind in family]


@pytest.mark.parametrize(("floor", "kind"), KINDS, ids=lambda value: getattr(value, "target", value))
def test_a_kind_names_code_of_its_own_floor_or_a_lower_one(floor, kind):
    assert kind.target.partition(":")[0].partition(".")[0] in FLOORS[floor]
    assert type(kind).__name__ == "Kind"
    assert kind.config.__module__.partition(".")[0] in FLOORS[floor]


@pytest.mark.parametrize(("floor", "kind"), KINDS, ids=lambda value: getattr(value, "target", value))
def test_a_kind_resolves_to_something_that_can_be_called(floor, kind):
    assert callable(kind.resolve())


@pytest.mark.parametrize(
    ("family", "annotation"),
    [
        (pipelines.detectors.kinds.DETECTORS, pipelines.detectors.kinds.DetectorConfig),
        (edge.capture.kinds.SOURCES, edge.capture.kinds.SourceConfig),
        (edge.sinks.kinds.SINKS, edge.sinks.kinds.SinkConfig),
        (pipelines.gates.kinds.GATES, pipelines.gates.kinds.GateConfig),
        (pipelines.trackers.kinds.TRACKERS, pipelines.trackers.kinds.TrackerConfig),
    ],
    ids=repr,
)
def test_a_family_has_exactly_the_kinds_the_schema_accepts(family, annotation):
    registered = {kind.name: kind.config for kind in family}
    assert registered == {name: block for block in blocks_of(annotation) for name in kinds_of(block)}


def test_the_policies_of_the_schema_are_the_registered_ones():
    words = get_args(edge.config.scheduler.SchedulerConfig.model_fields["policy"].annotation)
    assert set(words) == {kind.name for kind in edge.config.scheduler.POLICIES}
    assert set(words) == set(POLICIES)
    assert set(words) > edge.config.scheduler.NEEDS_NEAR


def test_an_unknown_kind_names_the_nearest():
    with pytest.raises(ConfigError) as caught:
        pipelines.detectors.kinds.DETECTORS["centreface"]
    assert caught.value.problems[0].nearest == "centerface"


def test_mqtt_names_its_extra_when_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(
        "pipelines.registry.find_spec", lambda name: None if name == "paho" else find_spec(name)
    )
    with pytest.raises(ConfigError, match=r"mqtt needs paho.*pip install 'nearfar\[mqtt\]'"):
        edge.sinks.kinds.SINKS["mqtt"].resolve()


def test_a_missing_extra_is_named_with_the_command_that_installs_it():
    kind = Kind(
        name="far_sighted",
        config=pipelines.blocks.Block,
        target="nowhere:Nothing",
        words="",
        extra="onnx",
        needs=("no_such_engine",),
    )
    with pytest.raises(ConfigError, match=r"no_such_engine.*pip install 'nearfar\[onnx\]'"):
        Family("detector", kind)["far_sighted"].resolve()


def test_a_detector_is_built_from_its_configuration():
    config = pipelines.detectors.kinds.SyntheticDetectorConfig(
        kind="synthetic", labels=("a", "b"), input=(64, 48)
    )
    detector = pipelines.detectors.kinds.DETECTORS.build(config)
    assert (detector.labels, detector.input_size) == (("a", "b"), (64, 48))


def test_a_source_is_built_from_its_configuration():
    source = edge.capture.kinds.SOURCES.build(
        edge.capture.kinds.SyntheticSourceConfig(kind="synthetic", size=(64, 48), count=1)
    )
    shape = source.open()
    source.close()
    assert (shape.width_px, shape.height_px) == (64, 48)


HEAVY = ("cv2", "onnxruntime", "zmq", "grpc", "sqlalchemy", "google.protobuf", "paho")


@pytest.mark.parametrize("command", ["check", "schema", "list"])
def test_a_command_that_only_reads_configuration_imports_no_engine_and_no_transport(command):
    assert find_spec("cv2")  # or its absence below would mean nothing
    code = f"import sys, nearfar.cli.{command}; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""

"""The house stands on its floors: rules import-linter cannot see by itself."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("pipelines", "protos", "edge", "cloud", "nearfar")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
BELOW = {
    "pipelines": set(),
    "protos": {"pipelines"},
    "edge": {"protos", "pipelines"},
    "cloud": {"protos", "pipelines"},
    "nearfar": {"cloud", "edge", "protos", "pipelines"},
}
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
    "contracts"
]
(SANS_IO,) = (contract for contract in CONTRACTS if "sans-IO" in contract["name"])
# Where each outside library is allowed to be known; everywhere else it is a leak.
HOMES = {
    "zmq": ("edge/links/zmq", "cloud/listeners/zmq"),
    "grpc": ("edge/links/grpc", "cloud/listeners/grpc"),
    "ray": ("cloud/deploy/",),
    "onnxruntime": ("pipelines/detectors/onnx.py",),
    "sqlalchemy": ("cloud/store/",),
    "psycopg": (),  # SQLAlchemy loads it for cloud/store/sql/postgres
    "click": ("nearfar/cli/",),
    "pickle": (),
    "marshal": (),
}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(path: Path) -> set[str]:
    """Dotted names of everything a module imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return found


def test_there_are_modules_to_judge():
    assert len(MODULES) > 40


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_its_own_floor_or_a_lower_one(path):
    floor = name_of(path).partition("/")[0]
    ours = {name.partition(".")[0] for name in imports(path)} & set(PACKAGES)
    assert ours <= BELOW[floor] | {floor}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_knows_no_library_that_lives_elsewhere(path):
    used = {name.partition(".")[0] for name in imports(path)}
    assert [lib for lib, homes in HOMES.items() if lib in used and not name_of(path).startswith(homes)] == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_generated_messages_are_known_to_the_wire_only_and_generated_services_to_nobody(path):
    names = " ".join(imports(path))
    assert "_pb2_grpc" not in names
    if not name_of(path).startswith(("protos/wire/", "protos/inference_pb2")):
        assert "inference_pb2" not in names


def module_of(path: Path) -> str:
    return name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def decides(path: Path) -> bool:
    """Whether the contract of decisions names the module or a package around it."""
    return f"{module_of(path)}.".startswith(tuple(f"{name}." for name in SANS_IO["source_modules"]))


@pytest.mark.parametrize("path", [path for path in MODULES if decides(path)], ids=name_of)
def test_a_decision_reads_no_clock_and_touches_nothing_outside(path):
    assert {name.partition(".")[0] for name in imports(path)} & set(SANS_IO["forbidden_modules"]) == set()


def test_no_modules_import_each_other_in_a_circle_not_even_for_their_types():
    """What import-linter calls a floor may still be a knot inside."""
    names = {module_of(path) for path in MODULES}
    graph = {module_of(path): imports(path) & names - {module_of(path)} for path in MODULES}
    while free := {name for name, needed in graph.items() if not needed & set(graph)}:
        graph = {name: needed for name, needed in graph.items() if name not in free}
    assert sorted(graph) == [], "these need each other"

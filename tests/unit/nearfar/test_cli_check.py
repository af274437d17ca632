"""The command line answers in words and exit codes: 0 done, 1 failed, 2 mend something."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import click
import pytest
import yaml

from cloud.config import WorkerConfig
from edge.config.pipeline import PipelineConfig
from nearfar.cli import main as command_line
from nearfar.cli.schema import MODELS, schema
from nearfar.process import main_guard
from pipelines.blocks import Block
from pipelines.codecs.kinds import CODECS
from pipelines.errors import ConfigError, Fatal, Problem
from pipelines.gates.kinds import GATES
from pipelines.registry import Family

RECIPES = Path(__file__).parents[3] / "pipelines" / "recipes"


@pytest.fixture
def nearfar(capsys):
    def run(*arguments):
        code = command_line.run(list(map(str, arguments)))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_right_pipeline_is_summed_up(nearfar):
    code, out, err = nearfar("check", RECIPES / "synthetic.yaml", "--set", "deadline=80ms")
    assert (code, err) == (0, "")
    assert "ok" in out
    assert "deadline 80ms, policy deadline" in out
    assert "square (synthetic)" in out


def test_a_right_worker_is_told_by_what_it_holds(nearfar):
    code, out, _ = nearfar("check", RECIPES / "worker-synthetic.yaml")
    assert code == 0
    assert "worker rehearsal: zmq 127.0.0.1:7440" in out
    assert "engine processes" not in out
    _, out, _ = nearfar("check", RECIPES / "worker-synthetic.yaml", "--set", "processes=2")
    assert "engine processes: 2, each with these models" in out


def test_a_wrong_file_is_told_with_its_line_and_the_command_that_checks_it_again(nearfar, tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(
        "version: 1\nstreams:\n  door: {source: {kind: synthetik}}\nnear: {detector: {kind: synthetic}}\n"
    )
    code, out, err = nearfar("check", file)
    assert (code, out) == (2, "")
    assert f"{file}:3:25: streams.door.source.kind: unknown kind of source" in err
    assert "did you mean: synthetic" in err
    assert f"nearfar check {file}" in err


LACKING = {"streams.cam.gate": (GATES, "motion"), "scheduler.ladder.0.codec": (CODECS, "zstd")}


@pytest.mark.parametrize("path", LACKING)
def test_every_kind_a_pipeline_names_is_asked_for_what_it_needs(nearfar, tmp_path, monkeypatch, path):
    family, name = LACKING[path]
    known = Family.__getitem__

    def lacking(one, kind):
        found = known(one, kind)
        return (
            replace(found, needs=("no_such_module",), extra="more")
            if (one, kind) == (family, name)
            else found
        )

    monkeypatch.setattr(Family, "__getitem__", lacking)
    file = tmp_path / "p.yaml"
    file.write_text(
        "version: 1\nstreams: {cam: {source: {kind: synthetic, count: 1}, gate: {kind: motion}}}\n"
        "near: {detector: {kind: synthetic}}\nscheduler: {ladder: [{codec: zstd}]}\n"
    )
    code, _, err = nearfar("check", file)
    assert code == 2
    assert f"{path}: {name} needs no_such_module; run: pip install 'nearfar[more]'" in err


def test_a_wrong_override_points_to_the_schema(nearfar):
    code, _, err = nearfar("check", RECIPES / "synthetic.yaml", "--set", "deadlin=80ms")
    assert code == 2
    assert "did you mean: deadline" in err
    assert "nearfar schema" in err


def test_a_file_that_is_neither_pipeline_nor_worker_is_told_so(nearfar, tmp_path):
    (tmp_path / "x.yaml").write_text("version: 1\n")
    code, _, err = nearfar("check", tmp_path / "x.yaml")
    assert code == 2
    assert "neither a pipeline" in err


def test_what_is_probably_not_meant_is_a_warning_not_a_failure(nearfar):
    code, out, _ = nearfar("check", RECIPES / "synthetic.yaml", "--set", "links={}")
    assert code == 0
    assert "warning: no link" in out


def test_what_a_link_may_cost_is_said(nearfar):
    links = "links={lte: {url: 'zmq://h:1', metered: true, data_budget: {per_hour: 200MB, per_day: 1GB}}, cable: {url: 'zmq://g:1'}}"
    code, out, _ = nearfar("check", RECIPES / "synthetic.yaml", "--set", links)
    assert code == 0
    assert "far: lte zmq://h:1 (metered, 200MB an hour, 1GB a day), cable zmq://g:1" in out


def test_an_unknown_command_names_the_nearest(nearfar):
    code, _, err = nearfar("chekc")
    assert code == 2
    assert "did you mean `nearfar check`?" in err


def test_an_unknown_option_names_the_nearest(nearfar):
    code, _, err = nearfar("check", "--sett", "a=b", "x.yaml")
    assert code == 2
    assert "--set" in err.replace("--sett", "")


def test_the_version_is_the_package_s(nearfar):
    assert nearfar("--version")[1] == "nearfar 0.1.0\n"


def test_help_lists_every_command_and_imports_none_of_them():
    code = (
        "import sys; from nearfar.cli.main import run; code = run(['--help']);"
        "print('LOADED', *sorted({'cv2', 'numpy', 'pydantic', 'yaml', 'zmq'} & set(sys.modules))); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name, (_, words) in command_line.COMMANDS.items():
        assert f"  {name} " in done.stdout
        assert words in done.stdout
    assert done.stdout.splitlines()[-1] == "LOADED"


@pytest.mark.parametrize("name", command_line.COMMANDS)
def test_every_command_of_the_table_exists_and_explains_itself(nearfar, name):
    command = command_line.nearfar.get_command(click.Context(command_line.nearfar), name)
    assert isinstance(command, click.Command)
    code, out, _ = nearfar(name, "--help")
    assert code == 0
    assert out.startswith(f"Usage: nearfar {name}")


def test_list_names_every_kind_and_the_extra_it_needs(nearfar):
    code, out, _ = nearfar("list")
    assert code == 0
    for word in ("source", "centerface", "jpeg", "threshold", "zmq", "jsonl", "listener"):
        assert word in out
    assert "needs nearfar[onnx]" in nearfar("list", "detector")[1]
    assert "synthetic" not in nearfar("list", "codec")[1]
    assert "ray" in nearfar("list", "deployment")[1]


@pytest.mark.parametrize("name", ["pipeline", "worker"])
def test_the_schema_writes_units_and_defaults_as_people_do(nearfar, name):
    code, out, _ = nearfar("schema", name)
    assert code == 0
    drain = json.loads(out)["properties"]["drain"]
    assert drain["default"] == "10s"
    assert drain["x-units"] == "us ms s m h d"


@pytest.mark.parametrize(("name", "model"), [("pipeline", PipelineConfig), ("worker", WorkerConfig)])
def test_the_schema_names_every_key_of_the_model_and_no_other(name, model: type[Block]):
    said = schema(name)
    assert set(said["properties"]) == set(model.model_fields)
    assert said["additionalProperties"] is False


@pytest.mark.parametrize("name", ["pipeline", "worker"])
def test_a_default_in_the_schema_is_the_real_one(name, tmp_path):
    said = schema(name)
    file = {"pipeline": "synthetic.yaml", "worker": "worker-synthetic.yaml"}[name]
    model = MODELS[name]
    data = yaml.safe_load((RECIPES / file).read_text())
    defaults = {key: rest["default"] for key, rest in said["properties"].items() if "default" in rest}
    assert defaults
    plain = {key: value for key, value in data.items() if key not in defaults}
    context = {"directory": tmp_path}
    # Read back from JSON: exactly what a person would copy out of the schema.
    written = json.loads(json.dumps({**plain, **defaults}))
    assert model.model_validate(written, context=context) == model.model_validate(plain, context=context)


def test_a_configuration_error_exits_2_and_any_other_of_ours_exits_1(capsys, tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text("a: {b: 1}\n")

    def misconfigured():
        raise ConfigError(Problem("is wrong", "a.b", str(file), 3, 1))

    def broken():
        raise Fatal("the engine broke")

    assert main_guard(misconfigured) == 2
    assert capsys.readouterr().err == f"{file}:3:1: a.b: is wrong\nmend it, then try: nearfar check {file}\n"
    assert main_guard(broken) == 1
    assert capsys.readouterr().err == "error: the engine broke\n"
    assert main_guard(lambda: None) == 0
    assert main_guard(lambda: 1) == 1


def test_what_is_about_no_file_is_not_called_a_configuration(nearfar, tmp_path):
    code, _, err = nearfar("report", tmp_path / "gone")
    assert code == 2
    assert err.startswith(f"error: {tmp_path}/gone is no directory")


def test_nobody_is_told_to_mend_a_file_that_is_not_there(nearfar, tmp_path):
    gone = tmp_path / "gone.yaml"
    assert nearfar("check", gone) == (2, "", f"{gone}: No such file or directory\n")


def test_an_interrupt_exits_130():
    def interrupted():
        raise KeyboardInterrupt

    assert main_guard(interrupted) == 130


def test_a_worker_says_how_long_it_keeps_what_and_never_the_password_of_its_store(tmp_path, capsys):
    path = tmp_path / "worker.yaml"
    path.write_text(
        "version: 1\nlisten: {zmq: {address: '127.0.0.1:0'}}\nmodels: {m: {detector: {kind: synthetic}}}\n"
        "store: {url: 'postgresql+psycopg://nearfar:do-not-show@db/nearfar', keep: 30d,"
        " payloads: {path: pictures, max_bytes: 50GiB, keep: all}}\n"
    )
    assert command_line.run(["check", str(path)]) == 0
    said = capsys.readouterr().out
    assert "records: kept for 30d" in said
    assert f"pictures: up to 50GiB in {tmp_path}/pictures, live ones: all" in said
    assert "@db/nearfar" in said
    assert "do-not-show" not in said

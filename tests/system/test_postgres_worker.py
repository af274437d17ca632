"""A worker as people run it, on PostgreSQL, with pictures: its records read by the command while it works."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cloud.store.records import open_store
from tests.support.eventually import eventually
from tests.support.postgres import PASSWORD, PostgresServer
from tests.support.rig import rig

pytestmark = pytest.mark.service("postgres")


def test_a_worker_on_postgresql_keeps_every_frame_and_its_hard_pictures_and_shows_no_password(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.new_url()
    pictures = tmp_path / "pictures"

    def records(*options: str) -> str:
        command = [sys.executable, "-m", "nearfar", "records", *options]
        environment = {**os.environ, "NEARFAR_STORE": url}
        return subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=60, env=environment
        ).stdout

    with rig(tmp_path) as house:
        house.worker_sets = (
            f"store.url={url}",
            f"store.payloads={{path: {pictures}, max_bytes: 10MiB, keep: all}}",
        )
        worker = house.start_worker()
        house.start_agent("--frames", "40")
        house.finish_agent()
        with open_store(url, read_only=True) as store:
            eventually(lambda: store.counts()["records"] == 40, 20.0, "every record")
            eventually(lambda: store.counts()["unknown"] == 0, 20.0, "every outcome")
        lines = [json.loads(line) for line in records("--format", "jsonl").splitlines()]
        assert [line["seq"] for line in lines] == list(range(1, 41))
        far = [line for line in lines if line["answered_by"] == "far"]
        assert far
        assert all(line["payload"]["kept"] for line in far)
        assert "pictures" in records("--hard", str(tmp_path / "out"), "--unsure-below", "1")
        document = json.loads((tmp_path / "out" / "annotations.json").read_text())
        assert len(document["images"]) == len(list((tmp_path / "out" / "images").iterdir()))
        ready = worker.ready["store"]
        house.stop_worker()
    said = ready + (tmp_path / "worker.log").read_text()
    assert PASSWORD not in said
    assert "127.0.0.1" in ready

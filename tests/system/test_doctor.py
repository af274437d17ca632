"""A doctor in a house that is at work."""

import json
import subprocess
import sys
from pathlib import Path

from cloud.store.records import open_store
from tests.support.eventually import eventually
from tests.support.sites import Site


def test_a_doctor_beside_a_running_agent_costs_it_no_connection_and_no_record(
    site: Site, tmp_path: Path
) -> None:
    eventually(lambda: 'link_connected{link="cable"} 1.0' in site.text(site.agent), 15.0, "the link")
    before = site.text(site.worker)
    done = subprocess.run(
        [sys.executable, "-m", "nearfar", "doctor", str(tmp_path / "p.yaml"), "--json"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    found = {f["layer"]: f for f in json.loads(done.stdout)["findings"]}
    assert "one runs in" in found["agent"]["words"]
    assert found["hello"]["level"] == "ok"
    after = site.text(site.agent)
    assert 'nearfar_agent_link_connections_total{link="cable"} 1.0' in after
    assert 'nearfar_agent_link_connected{link="cable"} 1.0' in after
    assert "nearfar_worker_agents 1.0" in before
    eventually(lambda: "nearfar_worker_agents 1.0" in site.text(site.worker), what="the doctor's leave")
    with open_store(f"sqlite:///{tmp_path}/worker/records.db", read_only=True) as store:
        assert {row.id.agent for row in store.rows()} == {"seen-gateway"}

"""A worker on Ray where it takes minutes: a replica that is busy gets another, two nodes share the work and one
dies."""

import os
import signal
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer
from tests.support.ray_house import Cluster, RayHouse
from tests.support.rig import rig

pytestmark = [
    pytest.mark.lab,
    pytest.mark.service("ray"),
    pytest.mark.service("postgres"),
    pytest.mark.timeout(300),
]


def test_a_busy_replica_gets_another_and_its_agent_finds_it_and_an_idle_one_goes(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    scaling = "cpus: 0.1, busy: 15%, up_after: 1s, down_after: 5s, stream_for: 10s"
    house = RayHouse(tmp_path, postgres.new_url(), least=1, most=2, ray=scaling)
    try:
        assert len(house.replicas()) == 1
        with rig(tmp_path, link="grpc", link_port=house.port) as agent:
            agent.start_agent()
            agent.wait_answers("far", 10, within_s=20.0)
            eventually(lambda: len(house.replicas()) == 2, 90.0, "another replica")
            said = tmp_path / "agent.log"
            eventually(lambda: said.read_text().count("back after") >= 2, 60.0, "two streams' end by age")
            agent.stop_agent(within_s=15.0)
            assert set(agent.seen_identities()) <= set(house.records())
        eventually(lambda: len(house.replicas()) == 1, 120.0, "one replica less")
        house.stop()
    finally:
        house.kill()


def test_on_two_nodes_nothing_is_lost_when_one_dies(postgres: PostgresServer, tmp_path: Path) -> None:
    with closing(Cluster(tmp_path / "cluster.log")) as cluster:
        house = RayHouse(tmp_path, postgres.new_url(), ray="cpus: 1", cluster=cluster)
        try:
            nodes = {psutil.Process(pid).ppid() for pid in house.replicas()}
            assert len(nodes) == 2, "a replica on each"
            with rig(tmp_path, link="grpc", link_port=house.port) as agent:
                agent.start_agent()
                agent.wait_answers("far", 10, within_s=20.0)
                second = max(nodes, key=lambda pid: psutil.Process(pid).create_time())
                os.kill(second, signal.SIGKILL)
                eventually(lambda: len(house.replicas()) == 1, 60.0, "the end of its replica")
                agent.wait_far_on_time(after=len(agent.answers), within_s=30.0)
                agent.stop_agent(within_s=15.0)
                assert set(agent.seen_identities()) <= set(house.records())
            house.stop()
        finally:
            house.kill()

"""Engine processes inside a replica on a real Ray: the models run there, and they end with their replica."""

from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from protos.wire.live import Result
from tests.support.agents import agent, frame, greet
from tests.support.eventually import eventually
from tests.support.grey_picture import grey_picture
from tests.support.ray_house import RayHouse

pytestmark = [pytest.mark.alone, pytest.mark.service("ray"), pytest.mark.timeout(240)]


def engines(replica: int) -> list[psutil.Process]:
    out = []
    for child in psutil.Process(replica).children():
        with suppress(psutil.Error):  # it ends just now
            if "cloud.engine" in child.cmdline():
                out.append(child)
    return out


def test_a_replica_has_engine_processes_of_its_own_which_answer_and_end_with_it(tmp_path: Path) -> None:
    house = RayHouse(tmp_path, f"sqlite:///{tmp_path}/records.db", least=1, most=1, processes=2)
    try:
        (replica,) = house.replicas()
        found = engines(replica)
        assert len(found) == 2
        with agent(f"grpc://127.0.0.1:{house.port}") as gateway:
            greet(gateway)
            for seq in range(1, 6):
                gateway.send(*frame(seq, grey_picture()))
                assert gateway.until(Result).seq == seq
            found[0].kill()
            eventually(
                lambda: len(engines(replica)) == 2 and found[0] not in engines(replica), 20.0, "another"
            )
            gateway.send(*frame(6, grey_picture()))
            assert gateway.until(Result).seq == 6
        last = engines(replica)
        house.stop()
        assert [engine for engine in last if engine.is_running()] == []
    finally:
        house.kill()

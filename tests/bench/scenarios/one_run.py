"""One run: a link, a worker, an agent on one core, a scenario; from an empty folder to figures."""

import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.bench.scenarios import score
from tests.bench.scenarios.catalogue import Act, Scenario
from tests.bench.scenarios.clip_cache import ClipCache
from tests.bench.scenarios.disturbance import Disturbance
from tests.bench.scenarios.events import Stage, play, wall_clock_for
from tests.bench.scenarios.recipe import PORT, ladder_of, pipeline_yaml, worker_yaml
from tests.support.netlab import link as netlab_link
from tests.support.netlab_house import House, Inside

EDGE_CPU, CLOUD_CPU = 0, 1
END_WITHIN_S = 60.0
OVERLOAD = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run to be made. `worker`: cached | real; `link`: zmq | grpc; `ladder`: a name of `LADDERS`. `service_ms`: median
    of the cached worker's model, None = as measured when the cache was made."""

    scenario: str
    policy: str
    deadline_ms: int
    frames: int
    fps: float
    cc: str
    worker: str = "cached"
    link: str = "zmq"
    ladder: str = "wide"
    service_ms: float | None = None
    round: int = 0

    @property
    def run_s(self) -> float:
        return self.frames / self.fps

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def make(
    plan: Plan, scenario: Scenario, cache: ClipCache, cache_path: Path, *, keep: Path | None = None
) -> dict[str, Any]:
    """The figures of one run. Raises whatever went wrong; everything started is ended. `keep`: a folder that takes
    what the agent and the worker left behind."""
    scenario = scenario.squeezed(plan.run_s)
    with tempfile.TemporaryDirectory(prefix="nearfar-scenario-") as name:
        root = Path(name)
        try:
            return _made(plan, scenario, cache, cache_path, root)
        finally:
            if keep is not None:
                shutil.copytree(root, keep, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock"))


def _made(plan: Plan, scenario: Scenario, cache: ClipCache, cache_path: Path, root: Path) -> dict[str, Any]:
    ladder = ladder_of(plan.ladder, cache)
    packets = root / "packets.csv"
    with netlab_link(scenario.profile, csv=str(packets), cc=plan.cc) as wire:
        house = House(wire, root, edge_cpu=EDGE_CPU, cloud_cpu=CLOUD_CPU)
        wall = wall_clock_for(scenario.acts, root)
        try:

            def start_worker() -> Inside:
                return _start_worker(house, plan, cache_path).wait_ready()

            worker = start_worker()
            host = house.name_worker() if scenario.by_name else wire.cloud_addr
            (root / "pipeline.yaml").write_text(
                pipeline_yaml(
                    root,
                    policy=plan.policy,
                    deadline_ms=plan.deadline_ms,
                    fps=plan.fps,
                    host=host,
                    link=plan.link,
                    ladder=ladder,
                    near_accuracy=cache.f1(None),
                )
            )
            agent = house.start(
                "edge",
                [
                    "-m",
                    "nearfar",
                    "edge",
                    str(root / "pipeline.yaml"),
                    "--run-dir",
                    str(root / "run"),
                    "--frames",
                    str(plan.frames),
                ],
                log="agent.log",
                env=None if wall is None else wall.environment,
            ).wait_ready()
            begun_s = time.monotonic()
            unix_minus_mono_s = time.time() - begun_s
            cpu = CpuClock(agent.pid)
            if scenario.steps:
                begun_s = wire.play(scenario.schedule)
            stage = Stage(
                house=house,
                worker=worker,
                start_worker=start_worker,
                real_worker=plan.worker == "real",
                link=plan.link,
                overload_per_s=OVERLOAD * 1000 / (plan.service_ms or cache.typical_us / 1000),
                wall=wall,
            )
            until_s = begun_s + plan.run_s + END_WITHIN_S

            def over() -> bool:
                if time.monotonic() > until_s:
                    raise TimeoutError(f"the agent did not end: {agent.log.read_text()[-2000:]}")
                cpu.look(counts=time.monotonic() - begun_s < plan.run_s)
                return agent.popen.poll() is not None

            done = play(scenario.acts, stage, begun_s=begun_s, over=over)
            disturbance = Disturbance.read(packets, begun_s, begun_s + plan.run_s)
            stats = wire.stats()
            stage.worker.stop()
        finally:
            house.close()
            if wall is not None:
                wall.close()
    figures = score.figures(
        root,
        cache,
        spans=_real_spans(scenario, done),
        begun_unix_s=begun_s + unix_minus_mono_s,
        frames=plan.frames,
        left_out=disturbance.touched(
            first_s=begun_s, fps=plan.fps, count=plan.frames, deadline_s=plan.deadline_ms / 1000
        ),
    )
    return {
        "plan": plan.as_dict(),
        "words": scenario.words,
        "exit_code": agent.popen.returncode,
        "discarded": disturbance.why_discarded() or _why_discarded(stats),
        "late_max_us": disturbance.late_max_us,
        "late_ticks": round(disturbance.share, 4),
        "realtime_relay": wire.is_rt,
        "cpu_ms_per_frame": round(1000 * cpu.used_s / plan.frames, 3),
        "acts": [[round(at_s, 2), act.value] for at_s, act in done],
        "link_up_bytes": stats["up"]["in_bytes"],
        "dropped_packets": {
            way: {k: v for k, v in stats[way].items() if k.startswith("drop") and v} for way in ("up", "down")
        },
        **figures,
    }


class CpuClock:
    """CPU of a process while frames come, user and system, of all its threads."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._start_s = self._last_s = self._read()

    def _read(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def look(self, *, counts: bool) -> None:
        if counts:
            try:
                self._last_s = self._read()
            except psutil.NoSuchProcess:
                return

    @property
    def used_s(self) -> float:
        return self._last_s - self._start_s


def _start_worker(house: House, plan: Plan, cache_path: Path) -> Inside:
    root = house.root
    if plan.worker == "real":
        path = root / "worker.yaml"
        path.write_text(worker_yaml(root, link=plan.link))
        return house.start("cloud", ["-m", "nearfar", "cloud", str(path)], log="worker.log")
    arguments = ["--cache", str(cache_path), "--link", plan.link, "--address", f"0.0.0.0:{PORT}"]
    if plan.service_ms is not None:
        arguments += ["--service-ms", f"{plan.service_ms:g}"]
    return house.start(
        "cloud",
        ["-m", "tests.bench.scenarios.cached_worker", *arguments, "--state", str(root / "worker")],
        log="worker.log",
    )


def _real_spans(scenario: Scenario, done: list[tuple[float, Act]]) -> list[tuple[float, float]]:
    """Bad spans with the moments at which acts were done: a worker is back when it is ready, not when asked to."""
    moments = {round(at_s, 6): done_s for (at_s, _), (done_s, _) in zip(scenario.acts, done, strict=False)}
    return [
        (moments.get(round(from_s, 6), from_s), moments.get(round(to_s, 6), to_s))
        for from_s, to_s in scenario.bad
    ]


def _why_discarded(stats: dict[str, Any]) -> str:
    lost = stats["up"]["tun_drops"] + stats["down"]["tun_drops"]
    return f"{lost} packets were lost before the relay" if lost else ""


def settle() -> None:
    """This process, the relay and everything on the cloud's side stay off the gateway's core."""
    os.sched_setaffinity(0, {CLOUD_CPU})

"""The pages of a real agent and a real worker, judged by Prometheus' own tools and scraped by a real Prometheus."""

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.rig import free_port
from tests.support.sites import Site, get

ALERTS = Path(__file__).parents[2] / "docs" / "alerts.yml"
PROMETHEUS = """\
global: {{scrape_interval: 500ms, scrape_timeout: 400ms, evaluation_interval: 500ms}}
rule_files: ["{alerts}"]
scrape_configs:
  - job_name: nearfar
    static_configs: [{{targets: ["{agent}", "{worker}"]}}]
"""


@pytest.mark.service("promtool")
def test_both_pages_pass_the_linter_of_prometheus(site: Site) -> None:
    far = 'nearfar_agent_frames_total{outcome="far"}'
    eventually(lambda: (site.value(site.agent, far) or 0) > 0, 10.0, "a far answer")
    for process in (site.agent, site.worker):
        done = subprocess.run(
            ["promtool", "check", "metrics"],
            input=site.text(process),
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout + done.stderr == ""


@pytest.mark.service("promtool")
def test_the_alerts_of_the_docs_are_rules_prometheus_takes() -> None:
    done = subprocess.run(
        ["promtool", "check", "rules", str(ALERTS)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


class Prometheus:
    """One on loopback, with everything it writes in `root`."""

    def __init__(self, root: Path, *, agent: str, worker: str) -> None:
        root.mkdir()
        self.url = f"http://127.0.0.1:{free_port()}"
        config = root / "prometheus.yml"
        config.write_text(PROMETHEUS.format(alerts=ALERTS, agent=agent, worker=worker))
        self._log = (root / "log").open("w")
        self._process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={root / 'data'}",
                f"--web.listen-address={self.url.removeprefix('http://')}",
            ],
            stdout=self._log,
            stderr=self._log,
        )

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """The vector of an instant query; empty while Prometheus does not answer."""
        try:
            text = get(f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
        except OSError:
            return []
        found: list[dict[str, Any]] = json.loads(text)["data"]["result"]
        return found

    def value(self, expression: str) -> float | None:
        found = self.ask(expression)
        return float(found[0]["value"][1]) if found else None

    def rule_states(self) -> set[str]:
        """How the rules fared; empty until each was evaluated."""
        groups = json.loads(get(f"{self.url}/api/v1/rules"))["data"]["groups"]
        found = {rule["health"] for group in groups for rule in group["rules"]}
        return set() if "unknown" in found else found

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(15)
        finally:
            self._process.kill()
            self._log.close()


@contextmanager
def prometheus(root: Path, site: Site) -> Iterator[Prometheus]:
    targets = {
        name: process.ready["http"].removeprefix("http://")
        for name, process in (("agent", site.agent), ("worker", site.worker))
    }
    made = Prometheus(root, **targets)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.service("prometheus")
def test_a_real_prometheus_scrapes_both_and_its_rates_make_sense(site: Site, tmp_path: Path) -> None:
    with prometheus(tmp_path / "prometheus", site) as server:
        eventually(lambda: server.value("sum(up)") == 2, 30.0, "both targets up")
        # a camera of 20 frames/s, seen from outside; wide, for a busy machine
        eventually(
            lambda: 10 < (server.value("rate(nearfar_agent_frames_captured_total[10s])") or 0) < 30,
            30.0,
            "the frame rate",
        )
        assert (server.value("rate(nearfar_worker_frames_total{outcome='answered'}[10s])") or 0) > 0
        latency = "histogram_quantile(0.5, rate(nearfar_agent_answer_latency_seconds_bucket{answered_by='far'}[10s]))"
        assert 0.004 < (eventually(lambda: server.value(latency), what="a latency") or 0) < 1.0
        assert server.value('nearfar_agent_stream_state{state="running"}') == 1
        assert server.value("nearfar_worker_agents") == 1
        # nobody is woken for a healthy pair: no rule of the docs fires, none fails to evaluate
        assert server.ask('ALERTS{alertstate="firing"}') == []
        assert eventually(server.rule_states, 10.0, "every rule evaluated") == {"ok"}


def test_an_agent_is_ready_without_its_worker_and_says_when_it_stops(site: Site) -> None:
    """F16: a cloud that is down is no reason to call a gateway broken."""
    site.worker.kill()
    eventually(lambda: 'link_connected{link="cable"} 0.0' in site.text(site.agent), 15.0, "the lost link")
    assert get(f"{site.agent.ready['http']}/readyz").startswith("ready, degraded: link cable: ")
    assert get(f"{site.agent.ready['http']}/healthz").startswith("alive\nlink cable: ")
    assert site.agent.stop() == 0


@pytest.mark.alone
def test_scraping_without_pause_makes_no_frame_late(site: Site) -> None:
    def count(outcome: str) -> float:
        value = site.value(site.agent, f"nearfar_agent_{outcome}")
        assert value is not None
        return value

    begun = count("frames_captured_total")
    eventually(lambda: count("frames_captured_total") > begun + 30, 20.0, "30 frames between scrapes")
    late = count("frames_captured_total") - count("frames_on_time_total") - count("frames_pending")
    assert late <= 2  # of the moment between two reads


RULES_TEST = """\
rule_files: ["{alerts}"]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'up{{job="nearfar",instance="good"}}', values: '1x60'}}
      - {{series: 'up{{job="nearfar",instance="bad"}}', values: '1x5 0x55'}}
      - {{series: 'up{{job="other",instance="bad"}}', values: '0x60'}}
      - {{series: 'nearfar_agent_frames_captured_total{{instance="good"}}', values: '0+1500x60'}}
      - {{series: 'nearfar_agent_frames_on_time_total{{instance="good"}}', values: '0+1395x60'}}
      - {{series: 'nearfar_agent_frames_unpaced_total{{instance="good"}}', values: '0+0x60'}}
      - {{series: 'nearfar_agent_frames_total{{instance="good",outcome="gated"}}', values: '0+100x60'}}
      - {{series: 'nearfar_agent_frames_captured_total{{instance="bad"}}', values: '0+1500x60'}}
      - {{series: 'nearfar_agent_frames_on_time_total{{instance="bad"}}', values: '0+1300x60'}}
      - {{series: 'nearfar_agent_frames_unpaced_total{{instance="bad"}}', values: '0+0x60'}}
      - {{series: 'nearfar_agent_frames_total{{instance="bad",outcome="gated"}}', values: '0+100x60'}}
      - {{series: 'nearfar_agent_stream_state{{instance="bad",stream="door",state="stalled"}}', values: '0x10 1x50'}}
      - {{series: 'nearfar_agent_stream_state{{instance="good",stream="door",state="running"}}', values: '1x60'}}
      - {{series: 'nearfar_agent_outbox_rows{{instance="bad"}}', values: '0+900x120'}}
      - {{series: 'nearfar_agent_outbox_oldest_age_seconds{{instance="bad"}}', values: '0+60x120'}}
      - {{series: 'nearfar_agent_outbox_rows{{instance="good"}}', values: '0 5 0 5x117'}}
      - {{series: 'nearfar_agent_outbox_oldest_age_seconds{{instance="good"}}', values: '0 1 0 1x117'}}
      - {{series: 'nearfar_worker_queue_oldest_age_seconds{{instance="bad"}}', values: '0.1x20 4x40'}}
      - {{series: 'nearfar_worker_queue_oldest_age_seconds{{instance="good"}}', values: '0.1x60'}}
    promql_expr_test:
{expectations}
"""


@pytest.mark.service("promtool")
def test_each_alert_of_the_docs_fires_for_its_trouble_and_for_nothing_else(tmp_path: Path) -> None:
    """F13, F14, F20: a stalled camera, a queue that ages and an outbox that grows wake somebody."""
    wanted = {
        "NearfarAway": ("15m", '{severity="page",instance="bad",job="nearfar"}'),
        "NearfarOnTimeRateLow": ("15m", '{severity="page",instance="bad"}'),
        "NearfarCameraStalled": ("15m", '{severity="page",instance="bad",stream="door",state="stalled"}'),
        "NearfarWorkerQueueAges": ("30m", '{severity="page",instance="bad"}'),
        "NearfarOutboxGrows": ("70m", '{severity="ticket",instance="bad"}'),
    }
    expectations = []
    for alert, (at, labels) in wanted.items():
        series = f'ALERTS{{alertname="{alert}",alertstate="firing",{labels[1:-1]}}}'
        expectations += [
            f'      - expr: ALERTS{{alertname="{alert}",alertstate="firing"}}',
            f"        eval_time: {at}",
            f"        exp_samples: [{{labels: '{series}', value: 1}}]",
        ]
    file = tmp_path / "rules_test.yml"
    file.write_text(RULES_TEST.format(alerts=ALERTS, expectations="\n".join(expectations)))
    done = subprocess.run(
        ["promtool", "test", "rules", str(file)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr

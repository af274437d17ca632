"""What Prometheus is shown: names that say their units, each documented, labels that cannot grow."""

import re
from dataclasses import replace
from importlib import util
from pathlib import Path

import pytest

from cloud.metrics import WorkerMetrics
from edge.capture.state import StreamState, StreamStatus
from edge.counters import Counters
from edge.latency import BOUNDS_US, LatencyTally
from edge.link_glance import LinkGlance
from edge.metrics import AgentMetrics
from edge.outbox.oldest import oldest_age_us
from edge.outbox.sqlite import SqliteOutbox
from edge.outbox.stats import OutboxStats
from edge.outbox.store import Changes, Entry
from edge.readiness import reasons
from edge.vitals import LinkVitals, SinkVitals, Vitals
from nearfar.cli import main as command_line
from pipelines.frame import Encoding, FrameId
from pipelines.result import Answer, AnsweredBy, ShedReason, Status
from protos.wire.live import FrameBody, FrameHead, Result
from protos.wire.session import Hello, Lane, RejectReason, StreamInfo
from tests.support.eventually import eventually
from tests.support.peers import FakePeer
from tests.support.workers import GatedDetector, clock_us, service

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
HELLO = Hello(
    agent="gw", run=bytes(16), lane=Lane.LIVE, streams=(StreamInfo(name="door", width_px=64, height_px=48),)
)


def answer(latency_us=20_000, by=AnsweredBy.FAR, *, stream="door", on_time=True, paced=True):
    return Answer(
        id=FrameId("gw", bytes(16), stream, 1),
        answered_by=by,
        status=Status.OK,
        captured_unix_us=0,
        latency_us=latency_us,
        deadline_us=100_000,
        on_time=on_time,
        paced=paced,
    )


def vitals(**changes) -> Vitals:
    tally = LatencyTally(("door", "yard"))
    counters = Counters()
    for given in (answer(), answer(30_000, AnsweredBy.NEAR, stream="yard")):
        tally.offer(given)
        counters.answer(given)
    made = Vitals(
        captured=4,
        answered={by: counters.answered[by] for by in AnsweredBy},
        gated=0,
        shed={reason: int(reason is ShedReason.SLOT_OVERWRITTEN) for reason in ShedReason},
        pending=1,
        on_time=2,
        unpaced=0,
        late_far=0,
        uncommitted=0,
        failed=0,
        offloaded=2,
        rejected=dict.fromkeys(RejectReason, 0),
        payload_bytes=5000,
        near_runs=1,
        near_cancelled=0,
        near_guard_us=25_000,
        margin_us=4_000,
        turned_us=1,
        latency=tally.histograms,
        streams={
            "door": StreamStatus(state=StreamState.RUNNING, since_us=0, frames=3),
            "yard": StreamStatus(state=StreamState.STALLED, since_us=0, frames=1, reconnects=2),
        },
        stream_answers=tally.answers,
        stream_on_time=tally.on_time,
        link=LinkVitals(
            name="lte",
            connected=True,
            in_budget=False,
            reason="round trip 300 ms",
            connections=3,
            sent_bytes=9000,
            glance=LinkGlance(at_us=1, rtt_us=40_000, rtt_min_us=30_000, bytes_per_s=1e6),
        ),
        outbox=OutboxStats(committed=5, acked=2, pending=3, evicted={"age": 0, "bytes": 0}, bytes=900),
        outbox_age_us=7_000_000,
        sinks=[SinkVitals(name="jsonl", written=2, dropped=0, failed=0)],
    )
    return replace(made, **changes)


def agent_metrics(read) -> AgentMetrics:
    return AgentMetrics(
        read,
        agent="gw",
        run="ab",
        policy="deadline",
        version="1",
        deadline_us=100_000,
        outbox_max_bytes=1 << 30,
    )


def samples(metrics) -> dict[str, float]:
    """`name{labels}` → value."""
    lines = metrics.text().decode().splitlines()
    return {k: float(v) for k, _, v in (line.rpartition(" ") for line in lines if not line.startswith("#"))}


def names(metrics) -> set[str]:
    """As a person would look them up."""
    found = set()
    for line in metrics.text().decode().splitlines():
        if line.startswith("# TYPE "):
            found.add(line.split()[2])
    return {name for name in found if name.startswith("nearfar_")}


def documented(prefix: str) -> set[str]:
    return set(re.findall(rf"^\| `({prefix}_\w+)`", DOCS.read_text(encoding="utf-8"), re.MULTILINE))


def test_every_metric_of_an_agent_is_documented_and_none_is_documented_that_is_not_there():
    assert names(agent_metrics(vitals)) == documented("nearfar_agent")


def test_every_metric_of_a_worker_is_documented_and_none_is_documented_that_is_not_there(tmp_path):
    with service(tmp_path) as (made, _):
        made.metrics.describe(name="w", store_id="s")
        made.metrics.model_restarts.labels("m")
        made.metrics.errors.labels("version")
        made.metrics.records.labels("live")
        made.metrics.bulk.labels("committed")
        # counted by the listener, which the worker adds
        there = names(made.metrics) | {"nearfar_worker_refused_messages_total"}
    assert there == documented("nearfar_worker")


@pytest.mark.parametrize("made", [lambda: agent_metrics(vitals), WorkerMetrics], ids=["agent", "worker"])
def test_names_are_in_base_units_and_counters_end_in_total(made):
    kinds = dict(
        line.split()[2:4]
        for line in made().text().decode().splitlines()
        if line.startswith("# TYPE nearfar_")
    )
    for name, kind in kinds.items():
        assert (kind == "counter") == name.endswith("_total"), name
        assert not re.search(r"_(ms|us|ns|kb|mb|kib|mib|percent|milliseconds)(_|$)", name), name


def test_the_law_of_the_frames_can_be_read_from_one_scrape():
    seen = samples(agent_metrics(vitals))
    ended = sum(v for k, v in seen.items() if k.startswith("nearfar_agent_frames_total"))
    assert seen["nearfar_agent_frames_captured_total"] == ended + seen["nearfar_agent_frames_pending"]
    assert seen["nearfar_agent_frames_unaccounted"] == 0
    assert samples(agent_metrics(lambda: vitals(captured=9)))["nearfar_agent_frames_unaccounted"] == 5


def test_a_stream_is_in_exactly_one_state():
    seen = samples(agent_metrics(vitals))
    for stream in ("door", "yard"):
        states = {k: v for k, v in seen.items() if k.startswith("nearfar_agent_stream_state") and stream in k}
        assert sum(states.values()) == 1
    assert seen['nearfar_agent_stream_state{state="stalled",stream="yard"}'] == 1


def test_what_is_not_known_is_absent_and_never_zero():
    link = vitals().link
    assert link is not None
    unmeasured = replace(link, glance=LinkGlance())
    seen = samples(agent_metrics(lambda: vitals(link=unmeasured, outbox_age_us=None)))
    assert not [k for k in seen if "rtt" in k or "oldest" in k]
    assert not [k for k in samples(agent_metrics(lambda: vitals(link=None))) if "_link_" in k]


def test_a_sink_that_takes_back_what_it_wrote_makes_no_counter_fall():
    written = iter([10, 7, 12])
    metrics = agent_metrics(
        lambda: vitals(sinks=[SinkVitals(name="jsonl", written=next(written), dropped=0, failed=0)])
    )
    key = 'nearfar_agent_sink_answers_total{outcome="written",position="0",sink="jsonl"}'
    assert [samples(metrics)[key] for _ in range(3)] == [10, 10, 12]


def test_two_sinks_of_one_kind_are_two_series():
    two = [SinkVitals(name="jsonl", written=n, dropped=0, failed=0) for n in (1, 2)]
    assert (
        len([k for k in samples(agent_metrics(lambda: vitals(sinks=two))) if 'outcome="written"' in k]) == 2
    )


def test_latency_buckets_are_cumulative_and_hold_every_paced_answer():
    tally = LatencyTally(("door",))
    for latency_us in (1_000, BOUNDS_US[3], BOUNDS_US[3] + 1, 10_000_000):
        tally.offer(answer(latency_us))
    tally.offer(answer(5, paced=False))
    seen = samples(agent_metrics(lambda: vitals(latency=tally.histograms)))
    far = {
        k: v for k, v in seen.items() if k.startswith("nearfar_agent_answer_latency_seconds") and '"far"' in k
    }
    buckets = [v for k, v in far.items() if "_bucket" in k]
    assert buckets == sorted(buckets)
    bound = f'nearfar_agent_answer_latency_seconds_bucket{{answered_by="far",le="{BOUNDS_US[3] / 1e6}"}}'
    assert far[bound] == 2
    assert far['nearfar_agent_answer_latency_seconds_count{answered_by="far"}'] == 4
    assert tally.answers[("door", AnsweredBy.FAR)] == 5
    assert tally.on_time["door"] == 4


def test_a_worker_shows_no_series_for_the_moment_a_counter_was_made():
    metrics = WorkerMetrics()
    metrics.acks.inc()
    assert "_created" not in metrics.text().decode()


def test_what_a_worker_has_not_refused_yet_is_zero_so_that_the_first_is_seen_to_rise():
    seen = samples(WorkerMetrics())
    assert {k for k in seen if k.startswith("nearfar_worker_rejects_total")} == {
        f'nearfar_worker_rejects_total{{reason="{reason.value}"}}' for reason in RejectReason
    }


def test_the_age_of_the_outbox_is_that_of_its_oldest_record_whatever_its_priority(tmp_path):
    path = tmp_path / "outbox.db"
    assert oldest_age_us(path) is None
    store = SqliteOutbox(path)
    store.open(0)
    try:
        store.commit(Changes(), 1)
        assert oldest_age_us(path) == 0
        entries = [
            Entry(key=(bytes(16), "door", seq), priority=priority, age_us=age_us, data=b"x")
            for seq, (priority, age_us) in enumerate([(2, 1_000), (0, 5_000_000), (1, 2_000)], start=1)
        ]
        store.commit(Changes(entries=entries), 10)
        assert oldest_age_us(path) == 5_000_000
    finally:
        store.close(10)


def test_an_http_block_without_the_extra_names_it(tmp_path, capsys, monkeypatch):
    file = tmp_path / "p.yaml"
    file.write_text(
        "version: 1\nstreams: {door: {source: {kind: synthetic, count: 1}}}\nnear: {detector: {kind: synthetic}}\n"
        "http: {address: '127.0.0.1:0'}\n"
    )
    real = util.find_spec
    missing = lambda name, *rest: None if name == "prometheus_client" else real(name, *rest)  # noqa: E731
    monkeypatch.setattr("nearfar.cli.edge.find_spec", missing)
    assert command_line.run(["check", str(file)]) == 2
    assert "pip install 'nearfar[metrics]'" in capsys.readouterr().err


def test_a_page_off_loopback_is_refused_in_the_words_of_the_worker_s(tmp_path, capsys):
    file = tmp_path / "p.yaml"
    text = "version: 1\nstreams: {door: {source: {kind: synthetic}}}\nnear: {detector: {kind: synthetic}}\n"
    file.write_text(text + "http: {address: '0.0.0.0:9465'}\n")
    assert command_line.run(["check", str(file)]) == 2
    assert "0.0.0.0 is reachable from outside" in capsys.readouterr().err
    file.write_text(text + "http: {address: '0.0.0.0:9465', insecure: true}\n")
    assert command_line.run(["check", str(file)]) == 0


# -- ready or not -------------------------------------------------------------------------------------------


def status(state: StreamState, reason: str = "") -> StreamStatus:
    return StreamStatus(state=state, since_us=0, reason=reason)


def judged(*states: StreamStatus, turned_us=9_000_000, outbox_error="", now_us=9_100_000) -> list[str]:
    streams = {f"cam{i}": state for i, state in enumerate(states)}
    return reasons(streams=streams, turned_us=turned_us, outbox_error=outbox_error, now_us=now_us)


def test_one_stalled_camera_among_others_leaves_an_agent_ready_and_all_of_them_do_not():
    """F13."""
    stalled = status(StreamState.STALLED, "no picture for 2 s")
    assert judged(stalled, status(StreamState.RUNNING)) == []
    assert judged(stalled, status(StreamState.ENDED)) == []
    assert judged(stalled) == ["no stream gives pictures (cam0 stalled: no picture for 2 s)"]


def test_a_camera_that_is_still_being_looked_for_at_the_start_is_waited_for():
    assert judged(status(StreamState.CONNECTING)) == []


def test_a_dispatcher_that_hangs_and_a_disk_that_refuses_are_said():
    running = status(StreamState.RUNNING)
    assert judged(running, turned_us=1_000_000) == ["the dispatcher has made no turn for 8 s"]
    assert judged(running, turned_us=0) == [], "it has not begun"
    assert judged(running, outbox_error="disk full") == ["the outbox cannot write: disk full"]


def test_the_times_of_a_worker_s_frames_are_cumulative_buckets_in_seconds(tmp_path):
    with service(tmp_path) as (made, _):
        peer = FakePeer()
        session = made.open(peer)
        session.receive(HELLO, clock_us())
        for seq in (1, 2):
            encoding = Encoding(codec="raw", quality=0, width_px=8, height_px=8, body_bytes=10)
            head = FrameHead(stream=0, seq=seq, worker_budget_us=5_000_000, sent_mono_us=0, encoding=encoding)
            session.receive(head, clock_us())
            session.receive(FrameBody(stream=0, seq=seq, data=b"x" * 10), clock_us())
        peer.wait(Result, 2)
        seen = eventually(
            lambda: (s := samples(made.metrics))["nearfar_worker_ack_seconds_count"] >= 1 and s, what="an ack"
        )
    assert isinstance(seen, dict)
    assert (
        seen["nearfar_worker_frames_admitted_total"]
        == seen['nearfar_worker_frames_total{outcome="answered"}']
        == 2
    )
    assert seen["nearfar_worker_payload_bytes_total"] == 20
    for part in ("queue", "decode", "resident"):
        buckets = [v for k, v in seen.items() if k.startswith(f"nearfar_worker_{part}_seconds_bucket")]
        assert buckets == sorted(buckets)
        assert buckets[-1] == seen[f"nearfar_worker_{part}_seconds_count"] == 2
    assert seen["nearfar_worker_resident_seconds_sum"] >= seen["nearfar_worker_queue_seconds_sum"] > 0
    assert seen["nearfar_worker_store_commit_seconds_count"] >= 1


def test_a_frame_that_waits_for_a_model_ages_the_queue(tmp_path):
    """F14: a queue that creeps up is seen while it does."""
    now_us = [1_000_000]
    gated = GatedDetector()
    gated.gate.clear()
    with service(tmp_path, build=lambda: gated, clock=lambda: now_us[0], timer=False) as (made, _):
        try:
            session = made.open(FakePeer())
            session.receive(HELLO, now_us[0])
            for seq in (1, 2, 3):
                encoding = Encoding(codec="raw", quality=0, width_px=8, height_px=8, body_bytes=10)
                head = FrameHead(
                    stream=0, seq=seq, worker_budget_us=60_000_000, sent_mono_us=0, encoding=encoding
                )
                session.receive(head, now_us[0])
                session.receive(FrameBody(stream=0, seq=seq, data=b"x" * 10), now_us[0])
            eventually(gated.running.is_set, what="the run of the first")
            now_us[0] += 7_000_000
            seen = eventually(
                lambda: (s := samples(made.metrics))["nearfar_worker_queue_frames"] == 2 and s,
                what="two waiting",
            )
            assert isinstance(seen, dict)
            assert seen["nearfar_worker_queue_oldest_age_seconds"] == 7.0
            assert seen["nearfar_worker_queue_bytes"] == 20
            assert seen["nearfar_worker_agents"] == 1
        finally:
            gated.gate.set()

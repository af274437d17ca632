"""What an agent shows Prometheus: the laws in one scrape, what is not known absent, labels that cannot grow."""

from dataclasses import replace
from importlib import util

from edge.capture.state import StreamState, StreamStatus
from edge.far.sight import LinkSight
from edge.flow.track_runner import TrackCounts
from edge.outbox.file.oldest import oldest_age_us
from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.stats import OutboxStats
from edge.outbox.store import Changes, Entry
from edge.sinks.delivery.postman import PostSight
from edge.sinks.delivery.queue import QueueSight
from edge.sinks.delivery.spool import SpoolSight
from edge.telemetry.counters import Counters
from edge.telemetry.latency import BOUNDS_US, LatencyTally
from edge.telemetry.metrics import AgentMetrics
from edge.telemetry.vitals import SinkVitals, Vitals
from nearfar.cli import main as command_line
from pipelines.frame import FrameId
from pipelines.result import Answer, AnsweredBy, ShedReason, Status
from protos.wire.session import RejectReason
from tests.support.exposition import assert_well_named, documented, names, samples


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


def queue() -> QueueSight:
    return QueueSight(
        durable=True,
        spool=SpoolSight(
            waiting=3,
            bytes=900,
            oldest_us=2_500_000,
            inherited=1,
            taken=9,
            delivered=4,
            refused={"http_400": 1},
            evicted={"age": 2, "bytes": 0},
            set_aside=0,
            abandoned=0,
            sheltered=0,
            flash_bytes=70_000,
            disk_error="",
        ),
        post=PostSight(failing="503", failing_us=1, retries=6, restarts=0),
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
        near_smaller_runs=1,
        tracker=TrackCounts(runs=3, lost=1, skipped=0),
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
        lag_us={"door": 0, "yard": 1_500_000},
        links=[
            LinkSight(
                unix_us=1,
                link="lte",
                connected=True,
                in_budget=False,
                reason="round trip 300 ms",
                rtt_us=40_000,
                rtt_age_us=0,
                rtt_min_us=30_000,
                bytes_per_us=1.0,
                in_flight_bytes=0,
                near_guard_us=25_000,
                fall_back_above_us=100_000,
                return_below_us=50_000,
                connections=3,
                sent_bytes=9000,
                too_large=0,
                bad_messages=0,
                budget_left_bytes=7_000,
            )
        ],
        outbox=OutboxStats(committed=5, acked=2, pending=3, evicted={"age": 0, "bytes": 0}, bytes=900),
        outbox_age_us=7_000_000,
        sinks=[
            SinkVitals(name="jsonl", written=2, dropped=0, failed=0),
            SinkVitals(name="plant", written=9, dropped=0, failed=0, queue=queue()),
        ],
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


def test_every_metric_of_an_agent_is_documented_and_none_is_documented_that_is_not_there():
    assert names(agent_metrics(vitals)) == documented("nearfar_agent")


def test_the_queue_of_a_sink_can_be_read_from_one_scrape_and_adds_up():
    seen = samples(agent_metrics(vitals))

    def of(name, **labels):
        words = ",".join(f'{k}="{v}"' for k, v in sorted({"position": 1, "sink": "plant", **labels}.items()))
        return seen[f"nearfar_agent_sink_{name}{{{words}}}"]

    assert queue().spool.balance == 0
    assert (of("queue_rows"), of("queue_bytes"), of("queue_oldest_age_seconds")) == (3, 900, 2.5)
    assert (of("failing"), of("queue_disk_failing"), of("retries_total")) == (1, 0, 6)
    assert of("delivered_total") == 4
    reasons = {reason: of("given_up_total", reason=reason) for reason in ("age", "bytes", "http_400")}
    assert reasons == {"age": 2, "bytes": 0, "http_400": 1}
    assert not [name for name in seen if "queue_rows" in name and "jsonl" in name]


def test_names_of_an_agent_are_in_base_units_and_its_counters_end_in_total():
    assert_well_named(agent_metrics(vitals))


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
    unmeasured = replace(vitals().links[0], rtt_us=None, budget_left_bytes=None)
    seen = samples(agent_metrics(lambda: vitals(links=[unmeasured], outbox_age_us=None)))
    assert not [k for k in seen if "rtt" in k or "outbox_oldest" in k or "data_budget" in k]
    without = samples(agent_metrics(lambda: vitals(links=[])))
    assert not [k for k in without if "_link_" in k or "degraded" in k]


def test_each_link_is_a_series_and_an_agent_is_degraded_only_while_none_is_in_budget():
    lte = vitals().links[0]
    cable = replace(lte, link="cable", in_budget=True, reason="", budget_left_bytes=None)
    seen = samples(agent_metrics(lambda: vitals(links=[lte, cable])))
    assert seen['nearfar_agent_link_in_budget{link="lte"}'] == 0
    assert seen['nearfar_agent_link_in_budget{link="cable"}'] == 1
    assert seen['nearfar_agent_link_data_budget_left_bytes{link="lte"}'] == 7_000
    assert 'nearfar_agent_link_data_budget_left_bytes{link="cable"}' not in seen
    assert seen["nearfar_agent_degraded"] == 0
    assert samples(agent_metrics(vitals))["nearfar_agent_degraded"] == 1
    spent = replace(cable, budget_left_bytes=0, budget_low=True)
    assert samples(agent_metrics(lambda: vitals(links=[lte, spent])))["nearfar_agent_degraded"] == 1


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
    monkeypatch.setattr("nearfar.agent_page.find_spec", missing)
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

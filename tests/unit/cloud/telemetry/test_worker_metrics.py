"""What a worker shows Prometheus: names that say their units, each documented, times in buckets, a queue that ages."""

from cloud.engine.metrics import show_engines
from cloud.engine.seat import Condition, EngineState
from cloud.keeping.storeroom import Storeroom
from cloud.limits import ServiceLimits
from cloud.store.kinds import StoreConfig
from cloud.telemetry.metrics import WorkerMetrics
from pipelines.frame import Encoding
from protos.wire.live import FrameBody, FrameHead, Result
from protos.wire.session import Hello, Lane, RejectReason, StreamInfo
from tests.support.eventually import eventually
from tests.support.exposition import assert_well_named, documented, names, samples
from tests.support.peers import FakePeer
from tests.support.workers import GatedDetector, clock_us, service

HELLO = Hello(
    agent="gw", run=bytes(16), lane=Lane.LIVE, streams=(StreamInfo(name="door", width_px=64, height_px=48),)
)

ENGINE = EngineState(engine=0, pid=0, condition=Condition.ENDED, restarts=2, words="crashed (SIGSEGV)")


def test_every_metric_of_a_worker_is_documented_and_none_is_documented_that_is_not_there(tmp_path):
    with service(tmp_path) as (made, store):
        config = StoreConfig(url=f"sqlite:///{tmp_path}/records.db")
        storeroom = Storeroom(
            config, store, limits=ServiceLimits(), codecs=(), clock_us=clock_us, unix_us=clock_us
        )
        storeroom.show(made.metrics)
        made.metrics.describe(name="w", store_id="s")
        made.metrics.model_restarts.labels("m")
        made.metrics.errors.labels("version")
        made.metrics.records.labels("live")
        made.metrics.bulk.labels("committed")
        show_engines(made.metrics.registry, lambda: [ENGINE])
        # counted by the listeners, which the worker adds
        there = names(made.metrics) | {
            "nearfar_worker_refused_messages_total",
            "nearfar_worker_listener_faults_total",
        }
    assert there == documented("nearfar_worker")


def test_names_of_a_worker_are_in_base_units_and_its_counters_end_in_total():
    assert_well_named(WorkerMetrics())


def test_a_worker_shows_no_series_for_the_moment_a_counter_was_made():
    metrics = WorkerMetrics()
    metrics.acks.inc()
    assert "_created" not in metrics.text().decode()


def test_what_a_worker_has_not_refused_yet_is_zero_so_that_the_first_is_seen_to_rise():
    seen = samples(WorkerMetrics())
    assert {k for k in seen if k.startswith("nearfar_worker_rejects_total")} == {
        f'nearfar_worker_rejects_total{{reason="{reason.value}"}}' for reason in RejectReason
    }


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


def test_an_engine_process_that_is_gone_is_shown_as_gone_with_its_restarts():
    metrics = WorkerMetrics()
    show_engines(metrics.registry, lambda: [ENGINE])
    seen = {k: v for k, v in samples(metrics).items() if "engine" in k}
    assert seen == {
        'nearfar_worker_engine_info{engine="0",pid="",state="ended"}': 1.0,
        'nearfar_worker_engine_ready{engine="0"}': 0.0,
        'nearfar_worker_engine_resident_memory_bytes{engine="0"}': 0.0,
        'nearfar_worker_engine_restarts_total{engine="0"}': 2.0,
    }
    assert_well_named(metrics)

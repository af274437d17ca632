"""F27: what a worker that answers may still lack, and a way that is too long or too narrow."""

from typing import cast

from edge.links.base import Link, Sent
from nearfar.doctor.far import Visit, check_bandwidth, check_hello, check_rtt
from nearfar.doctor.finding import Level
from nearfar.relay import Relay
from protos.wire.session import Credit, Error, Limits, RejectReason, Welcome
from tests.support.endpoints import ScriptedEndpoint
from tests.support.patients import BEHIND, assert_not_checked, failed, listening
from tests.support.workers import service


def test_a_healthy_pipeline_is_all_well_and_leaves_no_record_behind(patient, tmp_path):
    with service(tmp_path / "worker") as (made, store), listening(made) as url:
        found = patient.examined(url=url)
        assert {layer: f.words for layer, f in found.items() if f.level is not Level.OK} == {}
        assert store.counts()["records"] == 0
        assert store.gaps() == []
    for layer in ("state_dir", "stream door", "near", "cpu", "dns", "tcp", *BEHIND):
        assert found[layer].level is Level.OK
    assert "10 frames/s" in found["stream door"].words
    assert "kB a frame × 10 frames/s need" in found["bandwidth"].words


def test_a_worker_that_never_welcomes_is_a_failure_of_hello(patient, monkeypatch):
    monkeypatch.setattr("nearfar.doctor.far.WITHIN_S", 0.5)
    endpoint = ScriptedEndpoint()
    endpoint.silent = True
    with listening(endpoint) as url:
        found = patient.examined(url=url)
    assert failed(found) == ["hello"]
    assert found["hello"].words == "no welcome within 0.5 s"
    assert_not_checked(found, BEHIND[2:], "hello")


def test_a_worker_without_the_model_is_a_failure_of_model_that_names_those_it_has(patient, tmp_path):
    with service(tmp_path / "worker") as (made, _), listening(made) as url:
        found = patient.examined("far.model=faces-640", url=url)
    assert failed(found) == ["model"]
    assert found["hello"].level is Level.OK
    assert "faces-640" in found["model"].words
    assert "it has synthetic" in found["model"].words
    assert_not_checked(found, BEHIND[3:], "model")


def test_a_worker_of_another_version_is_told_in_its_words(patient):
    endpoint = ScriptedEndpoint()
    endpoint.refusal = Error(reason=RejectReason.VERSION, text="this worker speaks protocol 9", retry=False)
    with listening(endpoint) as url:
        found = patient.examined(url=url)
    assert failed(found) == ["hello"]
    assert "speaks protocol 9" in found["hello"].words
    assert "same version" in found["hello"].advice


def test_a_way_that_is_too_long_and_too_narrow_is_warned_about_with_its_figures(patient, tmp_path):
    with service(tmp_path / "worker") as (made, _), listening(made) as url:
        relay = Relay("127.0.0.1:0", url.removeprefix("zmq://"))
        relay.start()
        try:
            relay.set(rtt_ms=150, rate_mbit=2)
            found = patient.examined(
                "deadline=100ms",
                "streams.door.source.fps=1000",
                "scheduler.ladder=[{codec: jpeg, quality: 95}]",
                url=f"zmq://{relay.address}",
            )
        finally:
            relay.stop()
    assert not {"rtt", "bandwidth", "deadline"} & set(failed(found))
    assert found["rtt"].level is Level.WARN
    assert "answered near" in found["rtt"].advice
    assert found["bandwidth"].level is Level.WARN
    assert found["deadline"].level is Level.WARN


def test_layers_for_which_no_time_is_left_are_not_called_broken(patient, tmp_path, monkeypatch):
    monkeypatch.setattr("nearfar.doctor.examination.WITHIN_S", 1.5)
    with service(tmp_path / "worker") as (made, _), listening(made) as url:
        found = patient.examined(url=url)
    assert failed(found) == []
    assert "other layers took all the time" in found["hello"].words


class Silence:
    """A link that takes everything and hears nothing."""

    def send(self, *_messages, **_more) -> Sent:
        return Sent.ACCEPTED


def a_tenth(_own_s: float) -> float:
    """What is left for a step when the others took the rest."""
    return 0.1


def test_the_time_a_step_really_had_is_the_time_that_is_told(patient):
    met = Visit(cast("Link", Silence()))
    config = patient.config()
    (hello,), _ = check_hello(config, met, limit=a_tenth)
    rtt, _ = check_rtt(config, met, limit=a_tenth)
    assert hello.words == "no welcome within 0.1 s"
    assert rtt.words == "no ping came back within 0.1 s"
    welcome = Welcome(
        worker_run=bytes(16),
        store_id="s",
        models=(),
        limits=Limits(message_bytes=1 << 20, picture_px=1 << 20, decompressed_bytes=1 << 20, batch_records=1),
        credit=Credit(frames=4, bytes=1 << 20),
    )
    bandwidth, _ = check_bandwidth(
        met, welcome=welcome, rtt_us=1000, frame_bytes=5000, fps=10, gently=False, limit=a_tenth
    )
    assert "did not cross within 0.1 s" in bandwidth.words

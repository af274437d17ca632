"""Answers to a web server: what each of its words means, and that no token ever shows."""

import logging
import ssl
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from edge.sinks.delivery.courier import NeverError, NotNowError
from edge.sinks.kinds import unencrypted
from edge.sinks.webhook import retry_after_us
from pipelines.errors import ConfigError
from tests.support.answers import answer
from tests.support.certificates import certificates
from tests.support.eventually import eventually
from tests.support.receiver import Receiver
from tests.support.sinks import sink, sink_config
from tests.support.webhooks import couriers, parcels

VARIABLE = "PLANT_TOKEN"


@pytest.fixture
def receiver():
    with Receiver() as made:
        yield made


@pytest.fixture
def courier(tmp_path):
    with couriers(tmp_path) as make:
        yield make


def test_a_batch_is_one_request_with_every_answer_and_a_key_of_its_own(receiver, courier):
    made = courier(url=receiver.url)
    assert made.deliver(parcels(1, 2)) == 2
    assert made.deliver(parcels(1, 2)) == 2
    assert made.deliver(parcels(3)) == 1
    keys = [headers["Idempotency-Key"] for headers, _ in receiver.requests]
    assert keys[0] == keys[1] != keys[2]
    assert receiver.seqs == [1, 2, 1, 2, 3]
    assert receiver.taken[0]["id"] == f"gw/{bytes(16).hex()}/door/1"
    assert receiver.requests[0][0]["Content-Type"] == "application/json"


@pytest.mark.parametrize("status", [400, 402, 409, 413, 422])
def test_what_the_server_says_of_the_answers_is_for_good(receiver, courier, status):
    receiver.judge = lambda _: status
    with pytest.raises(NeverError, match=str(status)) as told:
        courier(url=receiver.url).deliver(parcels(1))
    assert told.value.reason == f"http_{status}"


@pytest.mark.parametrize(
    "status",
    [
        301,
        308,
        401,
        403,
        404,
        405,
        406,
        407,
        408,
        410,
        411,
        414,
        415,
        421,
        425,
        426,
        429,
        431,
        500,
        502,
        503,
        504,
    ],
)
def test_what_the_server_says_of_itself_of_the_address_or_of_us_is_tried_again(receiver, courier, status):
    receiver.judge = lambda _: status
    with pytest.raises(NotNowError, match=f"http://127.0.0.1:{receiver.port}: {status}"):
        courier(url=receiver.url).deliver(parcels(1))


def test_the_time_a_server_asks_for_is_read_as_seconds_or_as_a_date():
    now = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
    assert retry_after_us("7") == 7_000_000
    assert retry_after_us("Thu, 01 Jan 2026 12:00:30 GMT", now=now) == 30_000_000
    assert retry_after_us("Thu, 01 Jan 2026 11:00:00 GMT", now=now) == 0
    far = "9" * 30
    beyond = (
        f"Thu, 01 Jan {far} 12:00:30 GMT",
        f"Thu, 01 Jan 2026 {far}:00:00",
        "Mon, 01 Jan 0001 00:00:00 +2359",
    )
    for nonsense in ("", "soon", "-3", "9" * 400 + "x", *beyond):
        assert retry_after_us(nonsense) == 0


def test_retry_after_reaches_who_waits(receiver, courier):
    receiver.judge = lambda _: (429, {"Retry-After": "3"})
    with pytest.raises(NotNowError) as told:
        courier(url=receiver.url).deliver(parcels(1))
    assert told.value.after_us == 3_000_000


def test_a_token_is_read_at_each_request_so_that_a_new_one_needs_no_restart(receiver, courier, tmp_path):
    file = tmp_path / "token"
    file.write_text("first-token\n")
    made = courier(url=receiver.url, token_file=file)
    made.deliver(parcels(1))
    file.write_text("second-token\n")
    made.deliver(parcels(2))
    sent = [headers["Authorization"] for headers, _ in receiver.requests]
    assert sent == ["Bearer first-token", "Bearer second-token"]


def test_a_token_may_come_from_the_environment(receiver, courier, monkeypatch):
    monkeypatch.setenv(VARIABLE, "from-outside")
    courier(url=receiver.url, token_env=VARIABLE).deliver(parcels(1))
    assert receiver.requests[0][0]["Authorization"] == "Bearer from-outside"


def test_a_token_that_is_missing_is_said_at_start_and_later_waited_for(receiver, courier, tmp_path):
    with pytest.raises(ConfigError, match="PLANT_TOKEN is empty or not set"):
        courier(url=receiver.url, token_env=VARIABLE)
    file = tmp_path / "token"
    file.write_text("here")
    made = courier(url=receiver.url, token_file=file)
    file.unlink()
    with pytest.raises(NotNowError, match="cannot read the token"):
        made.deliver(parcels(1))


def test_a_token_is_in_no_log_no_error_and_no_repr(receiver, courier, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "token"
    file.write_text("s3cret-t0ken")
    receiver.judge = lambda _: 401
    made = courier(url=receiver.url, token_file=file)
    with pytest.raises(NotNowError) as told:
        made.deliver(parcels(1))
    file.write_text("s3cret-t0ken\nX-Evil: 1")
    with pytest.raises(NotNowError) as broken:
        made.deliver(parcels(1))
    assert "line break" in str(broken.value)
    file.write_text("s3cret-t0kén")
    with pytest.raises(NotNowError, match="ASCII") as foreign:
        made.deliver(parcels(1))
    seen = f"{told.value}{broken.value!r}{foreign.value!r}{made!r}{vars(made)}{caplog.text}"
    assert "s3cret" not in seen


@pytest.mark.service("openssl")
def test_over_https_the_server_is_known_by_its_certificate(tmp_path, courier):
    ca, cert, key = certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with Receiver(tls=context) as secure:
        url = secure.url.replace("127.0.0.1", "localhost")
        courier(url=url, tls={"ca": ca}).deliver(parcels(1))
        assert secure.seqs == [1]
        with pytest.raises(NotNowError, match=r"(?i)certificate"):
            courier(url=url).deliver(parcels(2))
        with pytest.raises(NotNowError, match=r"(?i)mismatch|valid for"):
            courier(url=secure.url, tls={"ca": ca}).deliver(parcels(3))
    (tmp_path / "nonsense").write_text("no certificate")
    with pytest.raises(ConfigError, match=r"holds no certificate.*give a PEM file under tls\.ca"):
        courier(url="https://localhost/", tls={"ca": tmp_path / "nonsense"})


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"url": "ftp://host/"}, "must begin with http:// or https://"),
        ({"url": "http://user:pass@host/"}, "token_file or token_env"),
        ({"url": "http:///x"}, "names no host"),
        ({"url": "http://host:99999/"}, "is no URL"),
        ({"url": "http://host/", "tls": {}}, "is for https"),
        ({"url": "http://host/", "timeout": "1ms"}, "must be 100ms to 10m"),
        ({"url": "http://host/", "token_env": "a-b"}, "pattern"),
        ({"url": "http://host/", "queue": {"max_bytes": "1kB"}}, "at least 64KiB"),
        ({"url": "http://host/", "queue": {"max_age": "1ms"}}, "at least 1s"),
        ({"url": "http://host/", "batch": 0}, "greater than or equal to 1"),
    ],
)
def test_a_block_that_cannot_work_is_refused_with_words(wrong, words):
    with pytest.raises(ValidationError, match=words) as told:
        sink_config(kind="webhook", **wrong)
    assert "user:pass" not in words
    assert told.value.error_count() >= 1


def test_two_tokens_are_one_too_many(tmp_path):
    (tmp_path / "t").write_text("x")
    with pytest.raises(ValidationError, match="keep one"):
        sink_config(kind="webhook", url="https://h/", token_file=tmp_path / "t", token_env=VARIABLE)


def test_a_token_that_anybody_could_read_is_warned_of():
    plain = sink_config(kind="webhook", url="http://h/", token_env=VARIABLE)
    secure = sink_config(kind="webhook", url="https://h/", token_env=VARIABLE)
    assert ["token goes unencrypted" in said for said in unencrypted([plain, secure])] == [True]


def test_its_batch_and_queue_are_what_the_file_says(receiver, tmp_path):
    receiver.judge = lambda _: 503
    made = sink(tmp_path, kind="webhook", url=receiver.url, batch=3, queue={"max_bytes": "64KiB"})
    for seq in range(1, 301):
        made.write(answer(seq))
        made.flush()
    eventually(lambda: receiver.requests, what="a request")
    seen = made.sight().spool
    assert 0 < seen.bytes <= 65_536
    assert seen.evicted["bytes"] > 0
    made.close()
    assert max(len(answers) for _, answers in receiver.requests) <= 3

"""The address of a worker as people write it: a host and a port, and never a secret in what they are told."""

import pytest

from edge.config.pipeline import PipelineConfig
from pipelines.document import Document
from pipelines.errors import ConfigError
from pipelines.redaction import redacted

PIPELINE = "version: 1\nstreams: {door: {source: {kind: synthetic}}}\n"


def told(url: str, *, by_override: bool) -> str:
    """What is said against `url`."""
    written = "zmq://127.0.0.1:1" if by_override else url
    document = Document(f"{PIPELINE}links: {{lte: {{url: '{written}'}}}}\n")
    if by_override:
        document.override([f"links.lte.url={url}"], PipelineConfig)
    with pytest.raises(ConfigError) as raised:
        document.validate(PipelineConfig)
    return str(raised.value)


@pytest.mark.parametrize("by_override", [False, True], ids=["file", "override"])
@pytest.mark.parametrize(
    "url",
    [
        "grpc://gw:s3cret@10.0.0.7:7440",
        "zmq://s3cret@10.0.0.7:7440",
        "grpcs://gw:s3cret@10.0.0.7:7440",
        "grpc://gw:s3 cret@10.0.0.7:7440",
        "grpc://gw:s3 c@s3cret@10.0.0.7:7440",
        "gw:s3cret@10.0.0.7:7440",
        "http://gw:s3cret@10.0.0.7:7440",
    ],
)
def test_credentials_in_a_link_are_refused_and_not_repeated(url: str, by_override: bool) -> None:
    words = told(url, by_override=by_override)
    assert "credentials for links are not built yet" in words
    assert "s3" not in words
    assert "cret" not in words
    assert "10.0.0.7" in words


@pytest.mark.parametrize(
    "url",
    [
        "grpc://:7440",
        "grpc://10.0.0.7/worker:7440",
        "grpc://10.0.0.7:7440/worker",
        "zmq://10.0.0.7?x=1:7440",
        "zmq://10.0 .0.7:7440",
        "zmq://::1:7440",
        "zmq://[10.0.0.7:7440",
        "zmq://10.0.0.7:٧٤٤٠",
        "zmq://eth0;10.0.0.7:7440",
    ],
)
def test_what_is_no_host_and_port_is_refused_with_what_to_write(url: str) -> None:
    assert "must be " + url.partition(":")[0] + "://HOST:PORT" in told(url, by_override=False)


@pytest.mark.parametrize(
    "url",
    ["zmq://worker:7440", "grpc://my_worker.example.org:1", "zmq://[::1]:7440", "zmq://[fe80::1%eth0]:7440"],
)
def test_a_name_an_address_and_one_in_brackets_are_taken(url: str) -> None:
    config = Document(f"{PIPELINE}links: {{lte: {{url: '{url}'}}}}\n").validate(PipelineConfig)
    assert config.links["lte"].url == url


@pytest.mark.parametrize(
    "text",
    [
        "links={lte: {url: 'grpc://gw:s3 cret@10.0.0.7:7440'}}",
        "links.lte.url=gw:s3cret@10.0.0.7:7440",
        "cannot reach zmq://gw:s3cret@10.0.0.7:7440: refused",
    ],
)
def test_a_secret_is_blotted_out_wherever_an_address_stands(text: str) -> None:
    words = redacted(text)
    assert "***@10.0.0.7:7440" in words
    assert "s3" not in words
    assert "cret" not in words


@pytest.mark.parametrize(
    "text", ["zmq://10.0.0.7:7440: refused", "12:30 mail to a@b", "grpc://[::1]:7440, then (a, b)"]
)
def test_words_without_a_secret_stay_as_they_are(text: str) -> None:
    assert redacted(text) == text

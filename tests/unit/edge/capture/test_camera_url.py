"""Addresses of cameras: what is none is refused with words, and no secret is ever shown."""

import pytest

from edge.capture.camera_check import why_not
from edge.capture.camera_url import camera_url, with_credentials
from edge.config.pipeline import load_pipeline
from pipelines.errors import ConfigError
from pipelines.redaction import redacted

SECRETS = [
    "rtsp://admin:s3cret@10.0.0.7:554/stream1",
    "rtsp://admin:s3cr@t@10.0.0.7/stream1",
    "http://10.0.0.7/video?user=s3cret&pwd=s3cret&channel=1",
    "http://:s3cret@[fe80::1]:8080/video",
    "https://s3cret@cam.example/video?token=s3cret#x",
    "rtsp://10.0.0.7/user=s3cret_password=s3cr_et_channel=1_stream=0.sdp?real_stream",
    "rtsp://10.0.0.7/user=s3cret&password=s3cr/et&channel=1&stream=0.sdp",
    "rtsp://10.0.0.7:554/cam/password=s3cret",
    "http://10.0.0.7/videostream.cgi?loginuse=s3cret&loginpas=s3cret&rate=0",
    "http://10.0.0.7/mjpg?usr=s3cret&psw=s3cret",
    "http://10.0.0.7/cgi-bin/mjpg?usrpwd=s3cret:s3cret",
    "http://10.0.0.7/mjpg?authToken=s3cret;api_key=s3cret",
]

PIPELINE = """\
version: 1
state_dir: {root}
streams:
  door: {{source: {source}}}
near:
  detector: {{kind: synthetic}}
"""


@pytest.fixture
def load(tmp_path):
    def load(source):
        path = tmp_path / "pipeline.yaml"
        path.write_text(PIPELINE.format(root=tmp_path, source=source))
        return load_pipeline(path)

    return load


@pytest.mark.parametrize("url", SECRETS)
def test_no_secret_of_an_address_is_shown(url):
    assert "s3cr" not in redacted(url)
    assert "s3cr" not in repr(camera_url(url))
    assert "10.0.0.7" in redacted(url) or "fe80" in redacted(url) or "cam.example" in redacted(url)


@pytest.mark.parametrize("url", SECRETS)
def test_no_secret_of_a_configuration_is_shown_or_dumped_and_yet_it_is_used(load, url):
    config = load(f'{{kind: camera, url: "{url}"}}')
    assert "s3cr" not in repr(config)
    assert "s3cr" not in str(config)
    assert "s3cr" not in config.model_dump_json()
    assert str(config.streams["door"].source.url) == url


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("10.0.0.7/stream", "must begin with rtsp://"),
        ("/dev/video0", "kind: usb"),
        ("file:///clip.mp4", "kind: file"),
        ("rtsp:///stream", "names no host"),
        ("rtsp://host:99999/s", "no URL"),
        ("rtsp://host/a b", "has a blank"),
        ("rtsp://cam..factory.example/s", "no network can know"),
        (f"rtsp://{'c' * 64}.example/s", "no network can know"),
        ("rtsp://admin:123/4@host/s", "write / as %2F"),
        ("rtsp://admin:12x/4@host/s", "write / as %2F"),
        ("rtsp://admin:12?4@host/s", r"\? as %3F"),
        ("http://host/s?mail=me@work", "elsewhere write @ as %40"),
    ],
)
def test_what_is_no_address_is_refused_with_words(load, url, words):
    with pytest.raises(ConfigError, match=words):
        load(f'{{kind: camera, url: "{url}"}}')


@pytest.mark.parametrize(
    "url",
    [
        "rtps://admin:s3cret@10.0.0.7/x",
        "rtsp://admin:s3cret/1@10.0.0.7/x",
        "rtsp://admin:12/s3cret@10.0.0.7/x",
        "rtps://10.0.0.7/x?pwd=s3cret",
        "rtps://10.0.0.7/user=a_password=s3cret_channel=1",
    ],
)
def test_a_refused_address_keeps_its_secret(load, url):
    with pytest.raises(ConfigError) as refused:
        load(f'{{kind: camera, url: "{url}"}}')
    assert "s3cret" not in str(refused.value)
    assert "s3cret" not in redacted(url)


def test_what_a_camera_needs_besides_its_secrets_is_shown():
    assert (
        redacted("rtsp://10.0.0.7/user=admin_password=tlJwpbo6_channel=1_stream=0.sdp?real_stream")
        == "rtsp://10.0.0.7/user=***_channel=1_stream=0.sdp?real_stream"
    )
    assert (
        redacted("http://10.0.0.7/v?channel=1&pwd=x&rate=0") == "http://10.0.0.7/v?channel=1&pwd=***&rate=0"
    )


def test_a_host_that_can_have_no_address_is_no_name_that_can_be_resolved():
    assert "the name cam..example cannot be resolved" in why_not("rtsp://cam..example/s", timeout_s=1.0)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{kind: camera, url: 'rtsp://u@h/x', user: u}", "say it once"),
        ("{kind: camera, url: 'rtsp://h/x', password_file: pipeline.yaml}", "needs user"),
        ("{kind: camera, url: 'rtsp://h/x', user: u, password_file: gone}", "no such file"),
        ("{kind: camera, url: 'rtsp://h/x', transport: http}", "tcp, udp"),
        ("{kind: camera, url: 'rtsp://h/x', stall_after: 20ms}", "at least 100ms"),
        ("{kind: rtsp, url: 'rtsp://h/x'}", "kind: camera"),
        ("{kind: usb, device: -1}", "0 or more"),
        ("{kind: usb, device: video0}", "/dev/video0"),
        ("{kind: images, path: x, fps: 0}", "greater than 0"),
    ],
)
def test_a_source_that_makes_no_sense_is_refused_with_words(load, source, words):
    with pytest.raises(ConfigError, match=words):
        load(source)


def test_what_a_camera_is_given_by_default(load):
    source = load("{kind: camera, url: 'rtsp://h/x'}").streams["door"].source
    assert (source.transport, source.size, source.latency) == ("tcp", None, 0)
    assert (source.open_timeout, source.stall_after, source.max_stale) == (10_000_000, 2_000_000, None)


def test_user_and_password_go_into_the_address_that_is_opened(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("p@:/ss\n")
    assert (
        with_credentials("rtsp://h:554/x?a=1", "ad min", secret) == "rtsp://ad%20min:p%40%3A%2Fss@h:554/x?a=1"
    )
    assert with_credentials("rtsp://u:p@h/x", None, None) == "rtsp://u:p@h/x"

"""What a camera that gives no picture says, in words that help, in time, and without its secrets."""

import base64
import hashlib
import re
import time

import pytest

from edge.capture.camera import CameraSource
from edge.capture.camera_check import why_not
from edge.capture.usb import UsbSource
from pipelines.errors import ConfigError, Retryable
from tests.support import mjpeg

BUSY_S = 3.0  # what a loaded machine may add


def pictures(line):
    line.send(mjpeg.HEAD)
    line.pictures(range(6), period_s=0.001)


def test_a_camera_that_refuses_says_what_to_do_without_its_secrets():
    with mjpeg.mjpeg(mjpeg.status(404, "Not Found")) as server:
        url = server.url.replace("//", "//admin:s3cret@") + "?pwd=s3cret"
        source = CameraSource(url=url)
        with pytest.raises(Retryable, match=r"404.*check the path") as refused:
            source.open()
    assert "s3cret" not in str(refused.value) + repr(source)


def test_a_camera_that_asks_for_a_user_is_not_said_to_refuse_ours_before_it_has_heard_it():
    """Asking why, we say no password."""

    def script(line):
        line.send(b"RTSP/1.0 401 Unauthorized\r\nCSeq: 1\r\nWWW-Authenticate: Digest realm=x\r\n\r\n")

    with mjpeg.mjpeg(script) as server:
        url = server.url.replace("http://", "rtsp://admin:s3cret@")
        said = why_not(url, timeout_s=2.0)
        assert said == "the camera asks for a user; ours or its password may be wrong, or the path"
        assert "set user and password_file" in why_not(url.replace("admin:s3cret@", ""), timeout_s=2.0)


def test_a_camera_that_refuses_our_user_is_said_to():
    with mjpeg.mjpeg(challenge_for_ever) as server:
        source = CameraSource(url=server.url.replace("//", "//admin:s3cret@"))
        with pytest.raises(Retryable, match="refuses the user or the password"):
            source.open()


def challenge_for_ever(line):
    line.send(b'HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm="cam"\r\nContent-Length: 0\r\n\r\n')


def challenge(kind):
    """A camera that wants to know who asks."""

    def script(line):
        if b"Authorization" not in line.request:
            line.send(f"HTTP/1.1 401 No\r\nWWW-Authenticate: {kind}\r\nContent-Length: 0\r\n\r\n".encode())
            return
        pictures(line)

    return script


def authorizations(server):
    return [
        line.partition(b": ")[2].decode()
        for request in server.requests
        for line in request.split(b"\r\n")
        if line.startswith(b"Authorization")
    ]


def test_the_password_of_a_camera_is_read_from_its_file_at_every_connect(tmp_path):
    secret = tmp_path / "secret"
    with mjpeg.mjpeg(challenge('Basic realm="cam"')) as server:
        source = CameraSource(url=server.url, user="ad:min", password_file=secret)
        with pytest.raises(ConfigError, match="cannot read the password"):
            source.open()
        for password in ("p@ss/1", "p@ss:2"):
            secret.write_text(password + "\n")
            source.open()
            source.close()
        sent = [base64.b64decode(text.removeprefix("Basic ")) for text in authorizations(server)]
    assert sent == [b"ad:min:p@ss/1", b"ad:min:p@ss:2"]


def test_a_camera_that_wants_a_digest_gets_one_and_never_the_password():
    with mjpeg.mjpeg(challenge('Digest realm="cam", nonce="n0nce", qop="auth"')) as server:
        source = CameraSource(url=server.url.replace("//", "//admin:s3cret@"))
        source.open()
        source.close()
        (sent,) = authorizations(server)
        assert b"s3cret" not in b"".join(server.requests)
    fields = dict(re.findall(r'(\w+)="?([^",]+)"?', sent))

    def md5(text):
        return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()

    whole = ":".join(
        [md5("admin:cam:s3cret"), "n0nce", fields["nc"], fields["cnonce"], "auth", md5("GET:/video")]
    )
    assert fields["response"] == md5(whole)


@pytest.mark.parametrize("scheme", ["http", "rtsp"])
def test_why_a_camera_cannot_be_opened_is_known_before_its_time_to_open_is_over(scheme):
    """F28: whoever waits for it waits no longer."""
    with mjpeg.mjpeg(accepting=False) as server:
        source = CameraSource(url=server.url.replace("http", scheme), open_us=2_000_000)
        begun = time.monotonic()
        with pytest.raises(Retryable, match="does not answer; check that the camera is on"):
            source.open()
        assert time.monotonic() - begun < 2.0 + BUSY_S


@pytest.mark.parametrize("device", [99, "/dev/video99"])
def test_a_usb_camera_that_is_not_there_is_named_with_those_that_are(device):
    with pytest.raises(Retryable, match="there is no /dev/video99; plug the camera in"):
        UsbSource(device=device).open()


def test_a_device_that_is_no_camera_is_refused_with_words():
    with pytest.raises(Retryable, match="/dev/null gives no pictures"):
        UsbSource(device="/dev/null").open()

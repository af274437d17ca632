"""Why a camera cannot be opened, found out by asking it: FFmpeg only says that it failed.

Name, connection and the first answer are looked at in that order; what is said names no secret.
"""

import socket
import time
from urllib.parse import SplitResult, urlsplit

from edge.capture.camera_url import PORTS

_HINTS = {
    400: "it does not understand this address; check the path",
    401: "it wants a user and a password; set user and password_file",
    403: "the user may not see this stream; check user, password_file and the camera's rights",
    404: "there is no such stream; check the path",
    453: "it has no bandwidth left; close other viewers of this camera",
    454: "its session is gone",
    461: "it does not offer this transport; try transport: udp or tcp",
    503: "it is busy or still starting",
}


def why_not(url: str, *, timeout_s: float) -> str:
    """What a person should know or do, asked for only after opening `url` failed; takes at most `timeout_s`
    besides the name look-up."""
    end_s = time.monotonic() + timeout_s
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    host = parts.hostname or ""
    port = parts.port or PORTS[scheme]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # UnicodeError: no host can have this name
        return f"the name {host} cannot be resolved; check it, or the DNS of this gateway"
    try:
        with socket.create_connection(
            (host, port), max(0.01, (end_s - time.monotonic()) / len(found))
        ) as line:
            if scheme in ("rtsps", "https"):
                return f"{host}:{port} is there, but gave no picture; check the path, user and certificate"
            line.settimeout(max(0.01, end_s - time.monotonic()))
            status = _status(line, parts, f"{f'[{host}]' if ':' in host else host}:{port}")
    except TimeoutError:
        return f"{host}:{port} does not answer; check that the camera is on and the network reaches it"
    except ConnectionRefusedError:
        return f"{host} refuses connections on port {port}; check the port and that the camera is up"
    except OSError as error:
        return f"{host}:{port} cannot be reached: {error.strerror or error}"
    if status is None:
        return f"{host}:{port} answers, but not in {scheme.upper()}; check the scheme and the port"
    if status == 401 and parts.username:  # we asked without the user, so it says nothing about ours
        return "the camera asks for a user; ours or its password may be wrong, or the path"
    if status >= 400:
        return what_it_means(status)
    return "the camera answers, but what it sends is no video this build of OpenCV can read"


def what_it_means(status: int, *, told_user: bool = False) -> str:
    """A refusal of the camera in words; `told_user`: it refused what we said of user and password."""
    if status == 401 and told_user:
        return "the camera refuses the user or the password; check user, password_file and the path"
    return (
        f"the camera answers {status}: {_HINTS.get(status, 'check the address and the state of the camera')}"
    )


def _status(line: socket.socket, parts: SplitResult, where: str) -> int | None:
    """The code of the first answer; None if it is not in the protocol of the URL."""
    protocol = parts.scheme.upper()
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if protocol == "RTSP":
        ask = f"DESCRIBE rtsp://{where}{target} RTSP/1.0\r\nCSeq: 1\r\nAccept: application/sdp\r\n\r\n"
    else:
        ask = f"GET {target} HTTP/1.1\r\nHost: {where}\r\nConnection: close\r\n\r\n"
    line.sendall(ask.encode("ascii", "replace"))
    answer = line.recv(64).split()
    if len(answer) < 2 or not answer[0].upper().startswith(protocol.encode() + b"/"):
        return None
    return int(answer[1]) if answer[1].isdigit() else None

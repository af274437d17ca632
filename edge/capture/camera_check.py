"""Why a camera cannot be opened, found out by asking it: FFmpeg only says that it failed.

Name, connection and the first answer are looked at in that order; what is said names no secret.
"""

import socket
from urllib.parse import SplitResult, urlsplit

from edge.capture.camera_url import PORTS

TIMEOUT_S = 2.0
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


def why_not(url: str, *, timeout_s: float = TIMEOUT_S) -> str:
    """What a person should know or do, asked for only after opening `url` failed; takes at most about `timeout_s`
    besides the name look-up."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    host = parts.hostname or ""
    port = parts.port or PORTS[scheme]
    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return f"the name {host} cannot be resolved; check it, or the DNS of this gateway"
    try:
        with socket.create_connection((host, port), timeout_s) as line:
            if scheme in ("rtsps", "https"):
                return f"{host}:{port} is there, but gave no picture; check the path, user and certificate"
            line.settimeout(timeout_s)
            status = _status(line, parts, f"{f'[{host}]' if ':' in host else host}:{port}")
    except TimeoutError:
        return f"{host}:{port} does not answer; check that the camera is on and the network reaches it"
    except ConnectionRefusedError:
        return f"{host} refuses connections on port {port}; check the port and that the camera is up"
    except OSError as error:
        return f"{host}:{port} cannot be reached: {error.strerror or error}"
    if status is None:
        return f"{host}:{port} answers, but not in {scheme.upper()}; check the scheme and the port"
    if status >= 400:
        return what_it_means(status, known=bool(parts.username))
    return "the camera answers, but what it sends is no video this build of OpenCV can read"


def what_it_means(status: int, *, known: bool) -> str:
    """A refusal of the camera in words; `known`: it was told a user."""
    if status == 401 and known:
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

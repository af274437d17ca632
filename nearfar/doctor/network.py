"""The way to a worker from below: its name, its port, and what kind of program answers there."""

import contextlib
import errno
import ipaddress
import socket
import time
from dataclasses import dataclass

from nearfar.bounded import LateError, seconds, within
from nearfar.doctor.finding import Finding, fail, ok
from nearfar.doctor.limits import Limit, as_asked

WITHIN_S = 2.5
_BANNER_S = 0.7
_BANNER_BYTES = 64
_HTTP2_SETTINGS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A link's URL in parts; `host` without brackets."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> "Address":
        scheme, _, rest = url.partition("://")
        host, _, port = rest.rpartition(":")
        return cls(scheme=scheme, host=host.strip("[]"), port=int(port))


def check_name(address: Address, *, limit: Limit = as_asked) -> tuple[Finding, list[str]]:
    """The addresses behind the host's name."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(address.host)
        return ok("dns", words=f"{address.host} is an address"), [address.host]
    begun_s = time.monotonic()
    mend = "mend the name in links, or the name server of this gateway (/etc/resolv.conf)"
    try:
        found = within(
            limit(WITHIN_S),
            lambda: socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM),
            what="the name server",
        )
    except LateError as error:
        return fail("dns", words=f"{address.host}: {error}", advice=mend), []
    except OSError as error:
        words = f"{address.host} cannot be resolved: {error.strerror or error}"
        return fail("dns", words=words, advice=mend), []
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    took_ms = (time.monotonic() - begun_s) * 1000
    return ok("dns", words=f"{address.host} is {', '.join(addresses)} ({took_ms:.0f} ms)"), addresses


def check_port(address: Address, addresses: list[str], *, limit: Limit = as_asked) -> tuple[Finding, str]:
    """The first of `addresses` that takes a connection, empty if none does."""
    last: OSError = OSError(errno.EADDRNOTAVAIL, "no address")
    limit_s = limit(WITHIN_S)
    until_s = time.monotonic() + limit_s
    for number, found in enumerate(addresses):
        begun_s = time.monotonic()
        try:  # one that is silent leaves the others their share of the time
            left_s = max(0.1, (until_s - begun_s) / (len(addresses) - number))
            with socket.create_connection((found, address.port), timeout=left_s):
                took_ms = (time.monotonic() - begun_s) * 1000
                words = f"{found} takes connections on port {address.port} ({took_ms:.1f} ms)"
                return ok("tcp", words=words), found
        except OSError as error:
            last = error
    where = f"{', '.join(addresses)} port {address.port}"
    if isinstance(last, ConnectionRefusedError):
        words = f"{where}: connection refused: the machine is there, nobody listens"
        advice = "start the worker there (nearfar cloud), or mend the port in links"
        return fail("tcp", words=words, advice=advice), ""
    if isinstance(last, TimeoutError):
        words = f"{where}: no answer within {seconds(limit_s)}"
        advice = "check that the machine is up and no firewall between drops the port"
        return fail("tcp", words=words, advice=advice), ""
    words = f"{where}: {last.strerror or last}"
    return fail("tcp", words=words, advice="check this gateway's network and routes"), ""


def check_answer(address: Address, found: str) -> Finding:
    """Whether what answers speaks the protocol of the link; other programs are named."""
    said = _banner(found, address.port)
    spoken = _protocol(said)
    layer = "protocol"
    wanted = {"zmq": "ZeroMQ", "grpc": "gRPC", "grpcs": "TLS"}.get(address.scheme, address.scheme)
    where = f"port {address.port}"
    if spoken == wanted:
        return ok(layer, words=f"{wanted} answers on {where}")
    if not said:
        words = f"something takes the connection on {where} and says nothing"
        advice = "is it the worker? Look at what listens there; a proxy may hold the port"
        return fail(layer, words=words, advice=advice)
    if spoken == "ZeroMQ":
        return fail(
            layer,
            words=f"ZeroMQ answers on {where}, not {wanted}",
            advice=f"write zmq://{address.host}:{address.port}, or the worker's gRPC port",
        )
    if spoken == "gRPC":
        return fail(
            layer,
            words=f"gRPC (HTTP/2) answers on {where}, not {wanted}",
            advice=f"write grpc://{address.host}:{address.port}, or the worker's ZeroMQ port",
        )
    return fail(
        layer,
        words=f"{spoken} answers on {where}, not {wanted}",
        advice="mend the port in links: another program has this one",
    )


def _banner(host: str, port: int) -> bytes:
    """What the other side says by itself, else to a line of HTTP, which every text protocol complains about."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=_BANNER_S) as line:
        line.settimeout(_BANNER_S)
        with contextlib.suppress(TimeoutError):
            return line.recv(_BANNER_BYTES)
        line.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return line.recv(_BANNER_BYTES)
    return b""


def _protocol(said: bytes) -> str:
    """The protocol whose first words these are, in a person's word."""
    if said[:1] == b"\xff" and (len(said) < 10 or said[9:10] == b"\x7f"):
        return "ZeroMQ"
    if len(said) >= 9 and said[3] == _HTTP2_SETTINGS and said[5:9] == bytes(4):
        return "gRPC"
    if said.startswith(b"\x15\x03"):
        return "TLS"
    for start, word in (
        (b"SSH-", "an SSH server"),
        (b"HTTP/", "a web server"),
        (b"RTSP/", "a camera (RTSP)"),
        (b"220", "a mail or FTP server"),
    ):
        if said.startswith(start):
            return word
    return f"something that begins with {said[:8].hex(' ')}"

"""`nearfar health`: does this page answer 200? For container health checks and scripts.

Bounded by 2 s in all, name lookup included. Goes straight to the host: proxies are for the outside world.
"""

import urllib.error
import urllib.request
from http.client import HTTPException
from urllib.parse import urlsplit

import click

from nearfar.bounded import LateError, seconds, within
from pipelines.errors import Retryable

WITHIN_S = 2.0
_SHOWN_BYTES = 500


@click.command(name="health")
@click.argument("url")
def command(url: str) -> None:
    """Ask URL once, e.g. http://127.0.0.1:9464/readyz of a worker.

    Exits 0 if it answers 200 within 2 s, 1 with the reason if not, 2 if URL is no http:// or https:// address.
    """
    if not _is_http(url):
        raise click.BadParameter(f"{url} is no http://HOST[:PORT]/PATH", param_hint="URL")
    status, words = ask(url, within_s=WITHIN_S)
    if status != 200:
        raise Retryable(f"{url} answers {status}: {words or 'no words'}")
    click.echo(f"{url} answers 200: {words or 'no words'}")


def ask(url: str, *, within_s: float) -> tuple[int, str]:
    """Status and first line of an http URL. Raises Retryable when there is no answer in `within_s` seconds."""
    # A socket's time-out bounds each step, not their sum, and a name lookup has none: the thread bounds it all.
    try:
        return within(within_s, lambda: _get(url, within_s), what="the page")
    except (LateError, OSError, HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise Retryable(f"{url}: {_why(reason, within_s)}") from error


def _why(reason: object, within_s: float) -> str:
    if isinstance(reason, LateError | TimeoutError):
        return f"no answer within {seconds(within_s)}"
    if isinstance(reason, ConnectionRefusedError):
        return "nothing listens there; does it run, and does its file say `http: {address: …}`?"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return str(reason)


def _get(url: str, timeout_s: float) -> tuple[int, str]:
    straight = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with straight.open(url, timeout=timeout_s) as reply:
            return reply.status, _first_line(reply.read(_SHOWN_BYTES))
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, _first_line(refusal.read(_SHOWN_BYTES))


def _first_line(body: bytes) -> str:
    return body.decode("utf-8", "replace").strip().partition("\n")[0]


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False

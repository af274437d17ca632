"""Answers to a web server: batches as `POST`, delivered once it says 2xx.

Refused for good is what the server says of the answers themselves (4xx); what it says of itself, of the address or of us
(5xx, 404, 429, 408, 401, a redirect …) is tried again: it is the same for every answer, and giving each up would lose them
all. `Idempotency-Key` is the same for the same batch, and each answer has its `id`.
"""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Self
from urllib.parse import urlsplit

from edge.sinks.delivery.courier import NeverError, NotNowError
from edge.sinks.delivery.parcel import Parcel
from edge.sinks.http_call import HttpCall, Reply
from edge.sinks.place import Place
from edge.sinks.secret import Secret
from edge.sinks.tls import TlsSettings, tls_context
from pipelines.errors import ConfigError, Retryable

NOT_ABOUT_ANSWERS = {
    401: "check token_file or token_env",
    403: "check token_file or token_env, and what it may do",
    404: "check url",
    405: "it takes no POST there; check url",
    406: "check url",
    407: "a proxy in between wants to know us",
    408: "",
    410: "it is there no more; check url",
    411: "check url",
    414: "check url, it is too long",
    415: "it takes no JSON there; check url",
    421: "check url",
    425: "",
    426: "it wants another protocol; check url",
    429: "",
    431: "check the token, it may be too long",
}
"""4xx that would be said of every answer, and what to do."""


class WebhookCourier:
    """A `Courier`."""

    def __init__(
        self, *, url: str, token: Secret, tls: TlsSettings | None, timeout_us: int, agent: str
    ) -> None:
        parts = urlsplit(url)
        self._shown = f"{parts.scheme}://{parts.netloc}"  # a path may hold a secret
        self._token = token
        self._agent = agent
        context = tls_context(tls) if parts.scheme == "https" else None
        self._call = HttpCall(url, timeout_us=timeout_us, tls=context)
        if token:
            token.read()  # what is missing now is a mistake of the file

    @classmethod
    def from_config(cls, config: Any, place: Place) -> Self:
        return cls(
            url=config.url,
            token=Secret(what="token of the webhook", file=config.token_file, env=config.token_env),
            tls=config.tls,
            timeout_us=config.timeout,
            agent=place.agent,
        )

    def deliver(self, parcels: Sequence[Parcel]) -> int:
        body = b'{"answers":[' + b",".join(parcel.body for parcel in parcels) + b"]}"
        key = hashlib.sha256("\n".join(parcel.id for parcel in parcels).encode()).hexdigest()[:32]
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "nearfar",
            "Idempotency-Key": key,
        }
        try:
            if self._token:
                headers["Authorization"] = f"Bearer {self._bearer()}"
            reply = self._call.post(body, headers)
        except (Retryable, ConfigError) as error:
            raise NotNowError(f"{self._shown}: {error}") from error
        self._judge(reply)
        return len(parcels)

    def tend(self) -> int | None:
        return None

    def interrupt(self) -> None:
        self._call.interrupt()

    def close(self) -> None:
        self._call.drop()

    def _bearer(self) -> str:
        token = self._token.read()
        if not token.isascii():
            raise ConfigError(
                "the token of the webhook has characters that are not ASCII: write it anew into its file or variable"
            )
        return token

    def _judge(self, reply: Reply) -> None:
        status = reply.status
        if 200 <= status < 300:
            return
        said = f"{self._shown}: {status} {reply.reason}".rstrip()
        if 400 <= status < 500 and status not in NOT_ABOUT_ANSWERS:
            raise NeverError(said, reason=f"http_{status}")
        advice = NOT_ABOUT_ANSWERS.get(status, "")
        if 300 <= status < 400:
            advice = "it is somewhere else; set url to where it is"
        raise NotNowError(f"{said}; {advice}" if advice else said, after_us=retry_after_us(reply.retry_after))


def retry_after_us(header: str, *, now: datetime | None = None) -> int:
    """`Retry-After` of RFC 9110, section 10.2.3: seconds, or a date. 0 for what is neither."""
    text = header.strip()
    if text.isascii() and text.isdecimal():
        return int(text[:9]) * 1_000_000
    try:
        then = parsedate_to_datetime(text)
        if then.tzinfo is None:
            then = then.replace(tzinfo=UTC)
        wait_s = (then - (now or datetime.now(UTC))).total_seconds()
    except (ValueError, OverflowError):  # a year or a zone beyond any calendar
        return 0
    return max(0, round(wait_s * 1_000_000))

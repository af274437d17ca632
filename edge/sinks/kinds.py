"""The kinds of sink, and what a configuration may say about each.

Naming a kind imports none of its code: `SINKS.build` does.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from edge.sinks.blocks import QueueingSinkBlock, RotateConfig, SinkBlock, receiver_url
from pipelines.blocks import FilePath, InputFile, MisfitError, Steps
from pipelines.registry import Family, Kind
from pipelines.units import Duration, duration

SOCKET_PATH_BYTES = 107
"""sun_path of unix(7) has 108 bytes, the last one a zero."""


class JsonlSinkConfig(SinkBlock):
    """Answers as JSON lines, appended to a file."""

    kind: Literal["jsonl"]
    path: FilePath
    rotate: RotateConfig | None = Field(None, description="left out: one file that grows for ever")


class StdoutSinkConfig(SinkBlock):
    """Answers as JSON lines on standard output."""

    kind: Literal["stdout"]


class SocketSinkConfig(SinkBlock):
    """Answers as JSON lines to every program that connects to a Unix socket."""

    kind: Literal["socket"]
    path: FilePath = Field(description="of the socket; made at start, removed at the end")
    mode: str = Field("0660", description="who may connect: permissions in octal, in quotes")

    @field_validator("path")
    @classmethod
    def _fits_an_address(cls, path: Path) -> Path:
        size = len(os.fsencode(path))
        if size > SOCKET_PATH_BYTES:
            raise ValueError(
                f"is {size} bytes long and a Unix socket's path may have {SOCKET_PATH_BYTES}; "
                "choose a shorter one, such as /run/nearfar/answers.sock"
            )
        return path

    @field_validator("mode", mode="before")
    @classmethod
    def _is_octal(cls, mode: object) -> object:
        # YAML reads 0660 and 660 as two different numbers, neither of which looks like what was written.
        if not isinstance(mode, str):
            raise ValueError('must be in quotes, such as "0660"')  # noqa: TRY004 - pydantic wants ValueError
        digits = mode.removeprefix("0")
        if len(digits) != 3 or not set(digits) <= set("01234567"):
            raise ValueError('must be three octal digits, such as "0660"')
        if digits[0] not in "67":
            raise ValueError('must let the owner read and write, such as "0660"')
        return mode


class MqttSinkConfig(QueueingSinkBlock):
    """Answers to an MQTT 3.1.1 broker, each a message with QoS 1."""

    kind: Literal["mqtt"]
    url: str = Field(
        description="mqtt://HOST:PORT, or mqtts://HOST:PORT for TLS; port 1883 or 8883 if left out"
    )
    topic: str = Field(
        "nearfar/{agent}/{stream}", min_length=1, description="of an answer; may hold {agent} and {stream}"
    )
    status_topic: str = Field(
        "nearfar/{agent}",
        min_length=1,
        description="retained: online or offline, by last will too; may hold {agent}",
    )
    user: str | None = Field(
        None, min_length=1, description="of the broker; its password is in password_file"
    )
    password_file: InputFile | None = Field(
        None, description="a file with the password, read at each connect"
    )
    client_id: str | None = Field(
        None,
        min_length=1,
        max_length=128,
        description="left out: nearfar-AGENT-NAME; no two clients of a broker share one",
    )
    keep_alive: Duration = Field(
        duration("15s"), description="silence after which broker and agent ask for each other; whole seconds"
    )

    @field_validator("url")
    @classmethod
    def _is_a_broker(cls, url: str) -> str:
        receiver_url(url, schemes=("mqtt", "mqtts"), secret="user and password_file", path=False)  # noqa: S106
        return url

    @field_validator("topic", "status_topic")
    @classmethod
    def _is_a_topic(cls, topic: str, info: ValidationInfo) -> str:
        known = ("agent", "stream") if info.field_name == "topic" else ("agent",)
        bare = topic
        for word in known:
            bare = bare.replace(f"{{{word}}}", "x")
        if "{" in bare or "}" in bare:
            raise ValueError(f"may hold {' and '.join(f'{{{word}}}' for word in known)}, no other braces")
        if "+" in bare or "#" in bare or "\0" in bare:
            raise ValueError("is where messages go, so it has no wildcards (+ and #)")
        return topic

    @field_validator("keep_alive")
    @classmethod
    def _is_whole_seconds(cls, keep_alive_us: int) -> int:
        if keep_alive_us % 1_000_000 or not 1 <= keep_alive_us // 1_000_000 <= 65_535:
            raise ValueError("must be 1s to 65535s, in whole seconds")
        return keep_alive_us

    @model_validator(mode="after")
    def _credentials_fit(self) -> Self:
        if self.password_file is not None and self.user is None:
            raise MisfitError((("password_file",), "needs user: beside it"))
        if self.tls is not None and not self.url.startswith("mqtts://"):
            raise MisfitError((("tls",), "is for mqtts://; say mqtts:// in url, or leave it out"))
        return self


class WebhookSinkConfig(QueueingSinkBlock):
    """Answers as batches of JSON to a web server, by POST."""

    kind: Literal["webhook"]
    url: str = Field(description="http://HOST/PATH or https://HOST/PATH")
    token_file: InputFile | None = Field(None, description="a file with a bearer token, read at each request")
    token_env: str | None = Field(
        None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="an environment variable with a bearer token"
    )

    @field_validator("url")
    @classmethod
    def _is_a_web_address(cls, url: str) -> str:
        receiver_url(url, schemes=("http", "https"), secret="token_file or token_env", path=True)  # noqa: S106
        return url

    @model_validator(mode="after")
    def _credentials_fit(self) -> Self:
        if self.token_file is not None and self.token_env is not None:
            raise MisfitError((("token_env",), "is a second token beside token_file; keep one"))
        if self.tls is not None and not self.url.startswith("https://"):
            raise MisfitError((("tls",), "is for https://; say https:// in url, or leave it out"))
        return self


SinkConfig = Annotated[
    JsonlSinkConfig | StdoutSinkConfig | SocketSinkConfig | MqttSinkConfig | WebhookSinkConfig,
    Field(discriminator="kind"),
]

SINKS = Family(
    "sink",
    Kind(
        name="jsonl",
        config=JsonlSinkConfig,
        target="edge.sinks.jsonl:JsonlSink",
        words="answers as JSON lines, appended to a file that may rotate",
    ),
    Kind(
        name="stdout",
        config=StdoutSinkConfig,
        target="edge.sinks.stdout:StdoutSink",
        words="answers as JSON lines on standard output",
    ),
    Kind(
        name="socket",
        config=SocketSinkConfig,
        target="edge.sinks.unix_socket:UnixSocketSink",
        words="answers as JSON lines to every program that connects to a Unix socket",
    ),
    Kind(
        name="mqtt",
        config=MqttSinkConfig,
        target="edge.sinks.mqtt:MqttCourier",
        words="answers to an MQTT broker, QoS 1, from a queue that may be durable",
        extra="mqtt",
        needs=("paho",),
    ),
    Kind(
        name="webhook",
        config=WebhookSinkConfig,
        target="edge.sinks.webhook:WebhookCourier",
        words="answers to a web server, in batches, from a queue that may be durable",
    ),
)


def unencrypted(sinks: Sequence[SinkConfig]) -> list[str]:
    """A sentence for each sink whose password or token anybody on the way could read."""
    said = []
    for position, sink in enumerate(sinks):
        if isinstance(sink, MqttSinkConfig) and sink.password_file and sink.url.startswith("mqtt://"):
            said.append(
                f"sinks.{position}: the password goes unencrypted; use mqtts:// where the broker has TLS"
            )
        if (
            isinstance(sink, WebhookSinkConfig)
            and (sink.token_file or sink.token_env)
            and sink.url.startswith("http://")
        ):
            said.append(f"sinks.{position}: the token goes unencrypted; use https://")
    return said


def path_faults(sinks: Sequence[SinkConfig]) -> Iterator[tuple[Steps, str]]:
    """Two sinks that write to one place: their lines would be torn, and one would rotate the other's file away."""
    taken: dict[Path, int] = {}
    for number, sink in enumerate(sinks):
        if isinstance(sink, JsonlSinkConfig | SocketSinkConfig):
            first = taken.setdefault(Path(os.path.realpath(sink.path)), number)
            if first != number:
                yield (
                    ("sinks", number, "path"),
                    f"is also where sinks.{first} writes: give each a path of its own",
                )

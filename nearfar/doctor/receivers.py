"""Receivers of sinks that queue: whether they can be reached, and what opens them. Nothing is sent.

One that is away is a warning: answers wait for it. A password, token or certificate that is missing stops the agent.
"""

import socket
from urllib.parse import urlsplit

from edge.sinks.kinds import SINKS, MqttSinkConfig, WebhookSinkConfig
from edge.sinks.secret import Secret
from edge.sinks.tls import tls_context
from nearfar.bounded import within
from nearfar.doctor.finding import Finding, fail, ok, warn, words_of
from nearfar.doctor.limits import Limit
from pipelines.errors import ConfigError

WITHIN_S = 2.0
PORTS = {"mqtt": 1883, "mqtts": 8883, "http": 80, "https": 443}


def check_receiver(sink: MqttSinkConfig | WebhookSinkConfig, *, layer: str, limit: Limit) -> Finding:
    missing = SINKS[sink.kind].missing
    if missing:
        extra = SINKS[sink.kind].extra
        return fail(
            layer,
            words=f"needs {', '.join(missing)}, which is not installed",
            advice=f"pip install 'nearfar[{extra}]'",
        )
    try:
        _read_secrets(sink)
    except ConfigError as error:
        return fail(layer, words=str(error), advice="make it, or change the sink; the agent would not start")
    parts = urlsplit(sink.url)
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]

    def reach() -> None:
        with socket.create_connection((host, port), limit(WITHIN_S)):
            pass

    shown = f"{host}:{port}"
    try:
        within(limit(WITHIN_S), reach, what=f"the way to {shown}")
    except Exception as error:  # noqa: BLE001 - whatever the network says is what is to be told
        keeps = "on disk" if sink.durable else "in memory, until the agent ends"
        return warn(
            layer,
            words=f"{shown}: {words_of(error)}; answers would wait for it {keeps}",
            advice="start it, or check the address, the port and the network between",
        )
    return ok(layer, words=f"{shown} can be reached")


def _read_secrets(sink: MqttSinkConfig | WebhookSinkConfig) -> None:
    if sink.tls is not None:
        tls_context(sink.tls)
    secret = (
        Secret(what="password of the MQTT broker", file=sink.password_file)
        if isinstance(sink, MqttSinkConfig)
        else Secret(what="token of the webhook", file=sink.token_file, env=sink.token_env)
    )
    if secret:
        secret.read()

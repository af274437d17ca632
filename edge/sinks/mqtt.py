"""Answers to an MQTT 3.1.1 broker with QoS 1: a parcel is delivered when the broker has acknowledged it.

Every failure ends the connection, and the next attempt makes a new one: what the broker did not acknowledge is sent again
by the queue, and by nobody else. The status topic is retained: `online` from the moment the broker let us in, `offline`
when we leave, and by last will when we are lost.
"""

import json
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.reasoncodes import ReasonCode

from edge.sinks.delivery.courier import NeverError, NotNowError
from edge.sinks.delivery.parcel import Parcel
from edge.sinks.dial import Dial
from edge.sinks.mqtt_line import MqttLine
from edge.sinks.place import Place
from edge.sinks.secret import Secret
from edge.sinks.tls import TlsSettings, tls_context
from edge.sinks.words import words_of
from pipelines.errors import ConfigError
from pipelines.runtime import monotonic_us

log = logging.getLogger(__name__)

PORTS = {"mqtt": 1883, "mqtts": 8883}
LOOK_EVERY_US = 1_000_000
SHORT_US = 3_000_000
"""A connection that ends sooner is not replaced at once: two clients of one id would throw each other out for ever."""
_FAREWELL_US = 200_000
_MOST_BYTES = 268_435_455  # of a packet, section 2.2.3 of MQTT 3.1.1
_LOST = (MQTTErrorCode.MQTT_ERR_CONN_LOST, MQTTErrorCode.MQTT_ERR_NO_CONN)
_PACKET_SPARE_BYTES = 1024
_TOPIC_BYTES = 65_535


def _hang_up(client: mqtt.Client, *, close: bool = False) -> None:
    """`close`: no thread of the client's will."""
    connection = client.socket()
    if isinstance(connection, socket.socket):
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        if close:
            connection.close()


class MqttCourier:
    """A `Courier`. `topic` and `status_topic` may hold {agent}, the first {stream} too. `timeout_us` bounds the connection
    and the wait for acknowledgements."""

    def __init__(
        self,
        *,
        url: str,
        place: Place,
        topic: str,
        status_topic: str,
        user: str | None,
        password: Secret,
        tls: TlsSettings | None,
        client_id: str,
        keep_alive_s: int,
        timeout_us: int,
    ) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or PORTS[parts.scheme]
        self._agent = place.agent
        self._run = place.run.hex()
        self._topic = topic
        self._status_topic = status_topic.format(agent=place.agent)
        self._user = user
        self._password = password
        self._tls: ssl.SSLContext | None = tls_context(tls) if parts.scheme == "mqtts" else None
        self._client_id = client_id
        self._keep_alive_s = keep_alive_s
        self._timeout_us = timeout_us
        self._interrupted = False
        self._welcomed_us = 0
        self._client: mqtt.Client | None = None
        self._line = MqttLine()
        self._dial: Dial | None = None
        if self._password:
            self._password.read()  # what is missing now is a mistake of the file

    @classmethod
    def from_config(cls, config: Any, place: Place) -> Self:
        return cls(
            url=config.url,
            place=place,
            topic=config.topic,
            status_topic=config.status_topic,
            user=config.user,
            password=Secret(what="password of the MQTT broker", file=config.password_file),
            tls=config.tls,
            client_id=config.client_id or f"nearfar-{place.agent}-{place.name}",
            keep_alive_s=config.keep_alive // 1_000_000,
            timeout_us=config.timeout,
        )

    def deliver(self, parcels: Sequence[Parcel]) -> int:
        client = self._connected()
        end_us = monotonic_us() + self._timeout_us
        sent: list[mqtt.MQTTMessageInfo] = []
        refused = ""  # by our own client
        lost = False  # the connection, while it was given a message
        for parcel in parcels:
            topic = self._topic.format(agent=self._agent, stream=parcel.stream)
            if len(parcel.body) + len(topic.encode()) + _PACKET_SPARE_BYTES > _MOST_BYTES:
                raise NeverError("it is larger than MQTT allows", reason="too_large")
            if any(sign in topic for sign in "+#\0") or len(topic.encode()) > _TOPIC_BYTES:
                raise NeverError(f"MQTT has no topic {topic!r}; rename the stream", reason="bad_topic")
            with self._line.changed:
                ended = self._line.ended
            if ended:
                break
            info = client.publish(topic, parcel.body, qos=1)
            if info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
                refused = mqtt.error_string(info.rc)
                lost = info.rc in _LOST
                break
            sent.append(info)
        taken = 0

        def all_taken() -> bool:
            nonlocal taken
            while taken < len(sent) and sent[taken].is_published():
                taken += 1
            return taken == len(sent)

        self._wait(lambda: all_taken() or bool(self._line.ended), end_us)
        if taken < len(parcels):
            why = self._line.ended or refused or self._without("acknowledgement")
            self._cut()
            if not taken:
                at_these = (bool(sent) or lost) and self._line.told and not self._interrupted
                raise NotNowError(f"{self._host}:{self._port}: {why}", at_these=at_these)
        return taken

    def tend(self) -> int | None:
        self._connected()
        return LOOK_EVERY_US

    def interrupt(self) -> None:
        self._interrupted = True
        self._line.heard()

    def close(self) -> None:
        client = self._client
        if client is None or self._line.ended:
            self._cut()
            return
        try:
            said = client.publish(self._status_topic, self._status("offline", "stopped"), qos=1, retain=True)
            self._interrupted = False
            if said.rc == MQTTErrorCode.MQTT_ERR_SUCCESS:
                self._wait(
                    lambda: said.is_published() or bool(self._line.ended), monotonic_us() + _FAREWELL_US
                )
            else:
                log.warning(
                    "mqtt: %s:%d is not told that we stop: %s",
                    self._host,
                    self._port,
                    mqtt.error_string(said.rc),
                )
            client.disconnect()
        except (ValueError, RuntimeError, OSError) as error:
            log.warning("mqtt: the farewell to %s:%d failed: %s", self._host, self._port, words_of(error))
            self._cut()
        else:
            client.loop_stop()  # not before the farewell is sent
            self._client = None

    # -- inside -------------------------------------------------------------------------------------------

    def _connected(self) -> mqtt.Client:
        """A client the broker has let in, the status told. Raises NotNowError."""
        if self._client is not None and not self._line.ended:
            return self._client
        ended = self._line.ended if self._client is not None else ""
        self._cut()
        if ended:
            log.info("mqtt: the connection to %s:%d ended: %s", self._host, self._port, ended)
            if monotonic_us() - self._welcomed_us < SHORT_US:
                raise NotNowError(
                    f"{self._host}:{self._port}: {ended}, right after it began; "
                    f"is there another client with the id {self._client_id}?"
                )
        end_us = monotonic_us() + self._timeout_us
        line = self._line = MqttLine()
        client = self._new_client(line)
        self._dialled(client, line, end_us)
        self._client = client
        client.loop_start()
        self._wait(lambda: line.welcomed or bool(line.ended), end_us)
        if not line.welcomed:
            why = line.ended or self._without("welcome")
            self._cut()
            raise NotNowError(f"{self._host}:{self._port}: {why}")
        self._welcomed_us = monotonic_us()
        said = client.publish(self._status_topic, self._status("online"), qos=1, retain=True)
        self._wait(lambda: said.is_published() or bool(line.ended), end_us)
        line.told = said.is_published()
        return client

    def _dialled(self, client: mqtt.Client, line: MqttLine, end_us: int) -> None:
        """Connect within the time there is, whatever names, addresses and handshakes take. Raises NotNowError."""
        where = f"{self._host}:{self._port} cannot be reached"
        if self._dial is not None and not self._dial.ended:
            # The one before is at it still; they must not pile up.
            raise NotNowError(f"{where}: {self._without('connection')}")
        dial = self._dial = Dial(
            lambda: client.connect(self._host, self._port, self._keep_alive_s),
            over=line.heard,
            hang_up=lambda: _hang_up(client, close=True),
        )
        self._wait(lambda: dial.ended, end_us)
        if not dial.ended:
            dial.give_up()
            raise NotNowError(f"{where}: {self._without('connection')}")
        error = dial.take_error()
        if isinstance(error, OSError | ValueError):  # ValueError: a certificate for another host, it may be
            raise NotNowError(f"{where}: {words_of(error)}") from error
        if error is not None:
            raise error

    def _new_client(self, line: MqttLine) -> mqtt.Client:
        client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=self._client_id,
            clean_session=True,
            protocol=MQTTProtocolVersion.MQTTv311,
            reconnect_on_failure=False,
        )
        client.connect_timeout = self._timeout_us / 1e6
        client.max_inflight_messages_set(65_535)  # as many as the queue gives at once
        if self._user is not None:
            try:
                client.username_pw_set(self._user, self._password.read() if self._password else None)
            except ConfigError as error:
                raise NotNowError(str(error)) from error
        if self._tls is not None:
            client.tls_set_context(self._tls)
        client.will_set(self._status_topic, self._status("offline", "connection lost"), qos=1, retain=True)

        def on_connect(_client: Any, _data: Any, _flags: Any, code: ReasonCode, _properties: Any) -> None:
            if code.is_failure:
                line.heard(ended=f"the broker refuses us: {code}; check user, password_file and client_id")
            else:
                line.heard(welcomed=True)

        def on_disconnect(_client: Any, _data: Any, _flags: Any, code: ReasonCode, _properties: Any) -> None:
            line.heard(ended=f"the connection ended: {code}")

        def on_publish(_client: Any, _data: Any, _mid: int, _code: Any, _properties: Any) -> None:
            line.heard()

        def on_socket_open(_client: Any, _data: Any, connection: Any) -> None:
            # A batch is many small packets: without it each waits for the acknowledgement of the one before.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        client.on_connect, client.on_disconnect, client.on_publish = on_connect, on_disconnect, on_publish
        client.on_socket_open = on_socket_open
        return client

    def _wait(self, condition: Callable[[], bool], end_us: int) -> None:
        with self._line.changed:
            self._line.changed.wait_for(
                lambda: self._interrupted or condition(), max(0.0, (end_us - monotonic_us()) / 1e6)
            )

    def _without(self, what: str) -> str:
        """Why the wait for `what`, which has not come, is over."""
        if self._interrupted:
            return "interrupted"
        return f"no {what} within {self._timeout_us / 1e6:g} s"

    def _cut(self) -> None:
        """Without a farewell, so that the broker tells our last will."""
        client, self._client = self._client, None
        if client is None:
            return
        _hang_up(client)
        client.loop_stop()

    def _status(self, state: str, reason: str = "") -> bytes:
        said = {"agent": self._agent, "run": self._run, "state": state}
        return json.dumps(said | ({"reason": reason} if reason else {}), separators=(",", ":")).encode()

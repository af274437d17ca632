"""A real mosquitto on a port of its own, which can be killed and started anew, and a subscriber that keeps what it hears."""

import json
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from tests.support.eventually import eventually
from tests.support.rig import free_port

MOSQUITTO = "mosquitto"


class Broker:
    """Open to everybody unless `lines` of its configuration say otherwise. Keeps retained messages over restarts."""

    def __init__(self, folder: Path, *, lines: Sequence[str] = ("allow_anonymous true",)) -> None:
        self.port = free_port()
        self.url = f"mqtt://127.0.0.1:{self.port}"
        self._config = folder / "mosquitto.conf"
        self._config.write_text(
            "\n".join(
                [
                    f"listener {self.port} 127.0.0.1",
                    "persistence false",
                    "log_dest none",
                    "user root",
                    *lines,
                    "",
                ]
            )
        )
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        program = shutil.which(MOSQUITTO)
        assert program is not None
        self._process = subprocess.Popen(
            [program, "-c", str(self._config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        eventually(self._listens, what="the broker")

    def kill(self) -> None:
        """As a power cut would: nobody is told."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Connections stand, nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 0.2):
            return True
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()


class Subscriber:
    """Hears everything of `topic` from the moment it is made; `heard` are (topic, message, retained)."""

    def __init__(
        self, broker: Broker, topic: str = "#", *, user: str | None = None, password: str | None = None
    ) -> None:
        self.heard: list[tuple[str, Any, bool]] = []
        self._ready = False
        client = self._client = mqtt.Client(CallbackAPIVersion.VERSION2)
        if user is not None:
            client.username_pw_set(user, password)
        client.on_message = self._hear

        def subscribed(*_: object) -> None:
            self._ready = True

        client.on_subscribe = subscribed

        def connected(*_: object) -> None:
            client.subscribe(topic, qos=1)

        client.on_connect = connected
        client.reconnect_delay_set(1, 1)
        client.connect("127.0.0.1", broker.port)
        client.loop_start()
        eventually(lambda: self._ready, what="the subscription")

    def _hear(self, _client: object, _data: object, message: mqtt.MQTTMessage) -> None:
        self.heard.append((message.topic, json.loads(message.payload), message.retain))

    @property
    def answers(self) -> list[dict[str, Any]]:
        return [message for _, message, _ in self.heard if "seq" in message]

    @property
    def seqs(self) -> list[int]:
        return [answer["seq"] for answer in self.answers]

    @property
    def states(self) -> list[str]:
        return [message["state"] for _, message, _ in self.heard if "state" in message]

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

"""A broker that ends the connection at what it is given, in the middle of it."""

import paho.mqtt.client as mqtt
import pytest

from edge.sinks.delivery.courier import NotNowError
from edge.sinks.delivery.parcel import packed
from tests.support.answers import answer
from tests.support.broker import Broker
from tests.support.mqtt import courier

pytestmark = pytest.mark.service("mosquitto")


def test_a_broker_that_hangs_up_while_we_still_send_does_so_at_these(tmp_path, monkeypatch):
    with Broker(tmp_path, lines=("allow_anonymous true", "max_packet_size 3000")) as broker:
        made = courier(tmp_path, url=broker.url)
        assert made.tend()
        publish = mqtt.Client.publish

        def gone_at_the_second(client, topic, body, **how):
            if len(body) > 3000:
                return publish(client, topic, body, **how)
            info = mqtt.MQTTMessageInfo(2)
            info.rc = mqtt.MQTT_ERR_NO_CONN
            return info

        monkeypatch.setattr(mqtt.Client, "publish", gone_at_the_second)
        bad, good = (
            packed(answer(1, reason="x" * 4000), number=1, born_us=0),
            packed(answer(2), number=2, born_us=0),
        )
        with pytest.raises(NotNowError, match="the connection ended") as caught:
            made.deliver([bad, good])
        assert caught.value.at_these
        made.close()

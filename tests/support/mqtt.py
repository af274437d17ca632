"""The courier of MQTT without its queue."""

from edge.sinks.mqtt import MqttCourier
from edge.sinks.place import Place
from tests.support.sinks import sink_config


def courier(folder, **settings):
    config = sink_config(kind="mqtt", **settings)
    return MqttCourier.from_config(config, Place(name="mqtt", agent="gw", run=bytes(16), folder=folder))

"""The block of an MQTT sink: what cannot work is refused with words, and what anybody could read is said."""

import pytest
from pydantic import ValidationError

from edge.sinks.kinds import unencrypted
from pipelines.errors import ConfigError
from tests.support.mqtt import courier
from tests.support.sinks import sink_config


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"url": "http://host"}, "must begin with mqtt:// or mqtts://"),
        ({"url": "mqtt://user:pass@host"}, "user and password_file"),
        ({"url": "mqtt://host/path"}, "has a path behind the host"),
        ({"url": "mqtt://host", "topic": "a/#"}, "no wildcards"),
        ({"url": "mqtt://host", "topic": "a/{camera}"}, "may hold {agent} and {stream}"),
        ({"url": "mqtt://host", "status_topic": "a/{stream}"}, "may hold {agent}"),
        ({"url": "mqtt://host", "keep_alive": "1500ms"}, "whole seconds"),
        ({"url": "mqtt://host", "tls": {}}, "is for mqtts"),
        ({"url": "mqtts://host", "tls": {"key": __file__}}, "needs cert"),
        ({"url": "mqtt://host", "password_file": __file__}, "needs user"),
    ],
)
def test_a_block_that_cannot_work_is_refused_with_words(wrong, words):
    with pytest.raises(ValidationError, match=words):
        sink_config(kind="mqtt", **wrong)


def test_a_password_that_is_missing_or_anybody_could_read_is_said_at_start(tmp_path):
    secret = tmp_path / "secret"
    secret.touch()
    with pytest.raises(ConfigError, match="is empty"):
        courier(tmp_path, url="mqtt://127.0.0.1", user="gw", password_file=secret)
    config = sink_config(kind="mqtt", url="mqtt://127.0.0.1", user="gw", password_file=secret)
    assert "the password goes unencrypted" in unencrypted([config])[0]

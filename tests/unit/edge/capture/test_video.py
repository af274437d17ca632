"""FFmpeg's settings: what the user has set wins, whenever before the first open it was set."""

import os

from edge.capture import video


def test_what_the_user_set_is_read_at_the_first_open_and_comes_last_so_it_wins(monkeypatch):
    settings = video.FfmpegSettings()
    monkeypatch.setenv(video.LOUDNESS, "0")
    monkeypatch.setenv(video.OPTIONS, "stimeout;7")
    settings.put("udp")
    assert os.environ[video.OPTIONS].endswith("|rtsp_transport;udp|stimeout;7")
    settings.put("tcp")
    assert os.environ[video.OPTIONS].count("stimeout") == 1

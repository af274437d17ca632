"""FFmpeg's settings: what the user has set wins, whenever before the first open it was set."""

import os

from edge.capture import ffmpeg_settings


def test_what_the_user_set_is_read_at_the_first_open_and_comes_last_so_it_wins(monkeypatch):
    settings = ffmpeg_settings.FfmpegSettings()
    monkeypatch.setenv(ffmpeg_settings.LOUDNESS, "0")
    monkeypatch.setenv(ffmpeg_settings.OPTIONS, "stimeout;7")
    settings.put("udp")
    assert os.environ[ffmpeg_settings.OPTIONS].endswith("|rtsp_transport;udp|stimeout;7")
    settings.put("tcp")
    assert os.environ[ffmpeg_settings.OPTIONS].count("stimeout") == 1

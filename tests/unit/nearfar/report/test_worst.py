"""The worst frames: first those without an answer, then the late ones, each with its picture."""

import pytest

from nearfar.report.page import write_report
from nearfar.report.worst import cards
from tests.support.run_dirs import (
    frame_line,
    mixed,
    write_picture,
)


def test_the_worst_frames_are_missed_then_late_then_nearest_to_their_deadline(made):
    lines = mixed(30)
    lines[3] |= {"latency_ms": 99.0}
    lines[7] |= {"latency_ms": 130.0, "on_time": False}
    lines[9] |= {"latency_ms": 240.0, "on_time": False}
    lines[12] = frame_line(13, "missed")
    lines[15] = frame_line(16, "near", status="failed", detections=None, on_time=False)
    shown = cards(made(lines))
    assert [card.seq for card in shown][:5] == [13, 16, 10, 8, 4]
    assert len(shown) == 10
    assert shown[0].seen == "no answer"
    assert (shown[2].verdict, shown[4].verdict) == ("far, 140.0 ms late", "far, 1.0 ms before its deadline")


def test_a_worst_frame_is_shown_with_its_picture_and_its_boxes_in_source_pixels(made):
    box = {"label": "car", "class_id": 2, "score": 0.875, "box": [10, 20, 110, 70]}
    run = made([frame_line(1, latency_ms=99.0, detections=[box, {"box": "damaged"}]), frame_line(2)])
    write_picture(run.path, 1)
    first, second = cards(run)
    assert first.picture.startswith("data:image/jpeg;base64,")
    assert (first.width_px, first.height_px) == (640, 360)
    (drawn,) = first.boxes
    assert (drawn.x, drawn.y, drawn.width, drawn.height, drawn.words) == (10, 20, 100, 50, "car 0.88")
    assert second.picture == ""
    text = write_report(run.path)[0].read_text()
    assert 'viewBox="0 0 640 360"' in text
    assert "no picture was kept" in text


@pytest.mark.parametrize("odd", [{"detections": 7}, {"model": None}, "model", "detections"])
def test_a_line_that_another_version_wrote_stops_no_report(made, odd):
    line = frame_line(1, latency_ms=99.0)
    if isinstance(odd, str):
        del line[odd]
    else:
        line |= odd
    run = made([line, frame_line(2)])
    shown = {card.seq: card for card in cards(run)}
    assert shown[1].latency_ms == 99.0
    assert write_report(run.path)[0].exists()

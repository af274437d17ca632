"""What a receiver gets: the line of the other sinks and an id that is the same however often it comes."""

import json
import re
from pathlib import Path

from edge.sinks.delivery.parcel import packed
from edge.telemetry.frame_lines import answer_line
from pipelines.frame import FrameId
from tests.support.answers import answer

PAGE = Path(__file__).parents[4] / "docs" / "sinks.md"


def test_a_parcel_is_one_line_of_json_with_its_id_first():
    given = answer(7, reason="first\nsecond")
    parcel = packed(given, number=3, born_us=9)
    assert b"\n" not in parcel.body
    message = json.loads(parcel.body)
    assert next(iter(message)) == "id"
    assert message.pop("id") == parcel.id
    assert message == json.loads(json.dumps(answer_line(given)))


def test_the_id_is_the_whole_identity_so_no_two_frames_share_one():
    ids = {
        packed(answer(id=FrameId(agent, run, stream, seq)), number=1, born_us=0).id
        for agent in ("gw", "gw-2")
        for run in (bytes(16), bytes([1] * 16))
        for stream in ("door", "yard")
        for seq in (1, 11)
    }
    assert len(ids) == 16
    assert f"gw/{'01' * 16}/yard/11" in ids


def test_the_message_on_the_page_has_the_keys_of_a_message():
    (example,) = re.findall(r"^```json\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    shown = json.loads(example)
    message = json.loads(packed(answer(), number=1, born_us=0).body)
    assert list(shown) == list(message)
    assert list(shown["detections"][0]) == list(message["detections"][0])
    assert shown["id"] == "/".join(str(shown[key]) for key in ("agent", "run", "stream", "seq"))

"""From an answer that was given near to its picture in a folder for labelling: real processes, one worker, one gateway."""

import json
from pathlib import Path

import cv2
import pytest

from nearfar.cli import main as command_line
from tests.support.rig import rig

KEEPS = "store: {payloads: {path: PLACE/pictures, keep: none}}\n"
SENDS = """\
uplink:
  archive: {codec: jpeg, quality: 90}
  rules:
    - {when: {label: thing, score_below: 0.5}, every: 5, send: [result, payload], priority: high}
    - {send: [result]}
"""


def escaped(text: str, place: Path) -> str:
    return text.replace("PLACE", str(place))


@pytest.mark.parametrize("link", ["zmq", "grpc"])
def test_the_picture_of_a_hard_near_answer_ends_in_a_folder_for_labelling(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], link: str
) -> None:
    with rig(
        tmp_path,
        link=link,
        policy="near_only",
        near_extra=", boxes: 12",
        extra=SENDS,
        worker_extra=escaped(KEEPS, tmp_path),
    ) as r:
        r.start_worker()
        r.start_agent("--frames", "40")
        summary = r.finish_agent()
        r.stop_worker()
    outbox = summary["outbox"]
    assert outbox["payloads_committed"] == outbox["payloads_acked"] == 8
    assert (outbox["payloads_pending"], outbox["adds_up"]) == (0, True)
    assert summary["archive"] == {"wanted": 8, "kept": 8, "shed": 0, "failed": 0, "crowded": 0}
    out = tmp_path / "hard"
    store = f"sqlite:///{tmp_path}/worker/records.db"
    assert command_line.run(["records", "--store", store, "--hard", str(out)]) == 0
    assert "8 pictures" in capsys.readouterr().out
    coco = json.loads((out / "annotations.json").read_text())
    pictures = [cv2.imread(str(path)) for path in sorted((out / "images").iterdir())]
    assert [p.shape for p in pictures if p is not None] == [(240, 320, 3)] * 8
    assert len(coco["annotations"]) == 8 * 12


def test_frames_around_an_event_go_up_too(tmp_path: Path) -> None:
    with rig(
        tmp_path,
        policy="near_only",
        near_extra=", boxes: 12",
        fps=5,
        extra=SENDS.replace("every: 5", "every: 15") + "outbox: {keep: {before: 500ms, after: 300ms}}\n",
        worker_extra=escaped(KEEPS, tmp_path),
    ) as r:
        r.start_worker()
        r.start_agent("--frames", "22")
        summary = r.finish_agent()
        r.stop_worker()
    # The 1st with the one after it; the 16th with two before it and one after.
    assert summary["outbox"]["payloads_acked"] == 2 + 4
    assert summary["archive"]["kept"] == 6


def test_a_worker_that_keeps_no_pictures_keeps_nobody_waiting(tmp_path: Path) -> None:
    with rig(tmp_path, policy="near_only", near_extra=", boxes: 12", extra=SENDS) as r:
        r.start_worker()
        r.start_agent("--frames", "30")
        summary = r.finish_agent(within_s=20)
        assert summary["outbox"]["payloads_pending"] == 6
        assert summary["outbox"]["pending"] == 0
        r.stop_worker()
        # The pictures wait for one that does.
        r.start_worker(worker_extra=escaped(KEEPS, tmp_path))
        r.start_agent("--frames", "10")
        outbox = r.finish_agent()["outbox"]
        assert (outbox["payloads_acked"], outbox["payloads_pending"]) == (8, 0)
        r.stop_worker()

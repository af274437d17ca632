"""Sinks: every answer offered is written, failed or dropped, and a bad sink is nobody else's trouble."""

import json
import threading
from typing import Any

import pytest

from edge.config.pipeline import load_pipeline
from edge.inbox import Inbox
from edge.sinks import threads
from edge.sinks.base import SinkThread
from edge.sinks.blocks import name_faults
from edge.sinks.jsonl import JsonlSink
from edge.sinks.resequencer import Resequencer
from edge.sinks.stdout import StdoutSink
from edge.sinks.threads import build_sinks
from pipelines.errors import ConfigError
from tests.support.answers import answer
from tests.support.eventually import eventually
from tests.support.sinks import sink_config


class Memory:
    def __init__(self, *, fails=(), gate=None):
        self.fails = fails
        self.gate = gate
        self.seqs = []
        self.flushed_at = []
        self.closed = False

    def write(self, given):
        if self.gate is not None:
            self.gate.wait(10)
        if given.id.seq in self.fails:
            raise OSError("no space left")
        self.seqs.append(given.id.seq)

    def flush(self):
        self.flushed_at.append(len(self.seqs))

    def close(self):
        self.closed = True

    def counts(self):
        return {"seqs": len(self.seqs)}


def test_answers_arrive_in_order_and_are_flushed_when_no_more_wait():
    sink = Memory()
    thread = SinkThread(sink, name="memory")
    thread.start()
    assert all(thread.offer(answer(i)) for i in range(1, 51))
    eventually(lambda: sink.flushed_at and sink.flushed_at[-1] == 50, what="the flush")
    assert sink.seqs == list(range(1, 51))
    assert thread.close()
    assert sink.closed


def test_a_full_inbox_drops_and_counts_and_never_blocks():
    gate = threading.Event()
    sink = Memory(gate=gate)
    thread = SinkThread(sink, name="slow", limit=4)
    thread.start()
    taken = [thread.offer(answer(i)) for i in range(100)]
    gate.set()
    assert thread.close(5.0)
    assert thread.dropped == taken.count(False) > 0
    assert thread.written == taken.count(True) == len(sink.seqs)
    assert thread.written + thread.failed + thread.dropped == 100


def test_a_sink_that_raises_is_counted_and_goes_on_with_the_next_answer(caplog):
    sink = Memory(fails={2, 3})
    thread = SinkThread(sink, name="disk")
    thread.start()
    for i in range(1, 6):
        thread.offer(answer(i))
    assert thread.close()
    assert sink.seqs == [1, 4, 5]
    assert (thread.written, thread.failed) == (3, 2)
    assert thread.last_error == "OSError: no space left"
    assert len(caplog.records) == 1


def test_a_sink_that_hangs_hurts_neither_its_neighbour_nor_who_closes_it():
    gate = threading.Event()
    hung = SinkThread(Memory(gate=gate), name="hung")
    good_sink = Memory()
    good = SinkThread(good_sink, name="good")
    for thread in (hung, good):
        thread.start()
        thread.offer(answer())
    eventually(lambda: good_sink.seqs == [1], what="the neighbour's answer")
    assert not hung.close(0.05)
    assert hung.dropped == 1
    gate.set()
    assert hung.close(5.0)
    assert (hung.written, hung.dropped) == (1, 0)
    assert good.close()


def test_what_waits_is_still_written_at_close_and_later_answers_are_counted_as_dropped():
    sink = Memory()
    thread = SinkThread(sink, name="late")
    assert thread.offer(answer(1))
    assert thread.close()
    assert sink.seqs == [1]
    assert not thread.offer(answer(2))
    assert thread.dropped == 1


def test_an_inbox_gives_everything_that_waits_at_once_and_ends_only_when_empty():
    inbox: Inbox[int] = Inbox(10)
    inbox.put(1)
    inbox.put(2)
    assert inbox.take() == [1, 2]
    assert inbox.take(0.0) == []
    inbox.put(3)
    inbox.close()
    assert not inbox.put(4)
    assert inbox.take() == [3]
    assert inbox.take() is None
    assert inbox.refused == 1


def test_a_line_cut_off_by_a_crash_does_not_swallow_the_next_one(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text('{"seq": 1}\n{"se')
    sink = JsonlSink(path=path)
    sink.write(answer(7))
    sink.close()
    first, cut, last = path.read_text().splitlines()
    assert (json.loads(first)["seq"], cut, json.loads(last)["seq"]) == (1, '{"se', 7)


def test_a_file_that_cannot_be_written_is_refused_with_its_path(tmp_path):
    (tmp_path / "taken").write_text("a file where a folder should be")
    with pytest.raises(ConfigError, match="taken"):
        JsonlSink(path=tmp_path / "taken" / "answers.jsonl")


def test_stdout_is_found_when_it_is_written_to(capsys):
    sink = StdoutSink()
    sink.write(answer(3))
    sink.flush()
    assert json.loads(capsys.readouterr().out)["seq"] == 3


def test_two_sinks_of_a_kind_have_names_of_their_own_and_both_are_counted(tmp_path):
    configs = [sink_config(kind="jsonl", path=tmp_path / name) for name in ("a", "b")]
    sinks = build_sinks(configs, agent="gw", run=bytes(16), state_dir=tmp_path)
    for sink in sinks:
        sink.start()
        sink.offer(answer())
        assert sink.close()
    assert [sink.name for sink in sinks] == ["jsonl", "jsonl-2"]
    counts = {"written": 1, "dropped": 0, "failed": 0, "rotated": 0, "reopened": 0}
    assert [sink.summary() for sink in sinks] == [counts] * 2


def test_a_sink_may_have_a_name_of_its_own_which_no_other_sink_may_have(tmp_path):
    path = tmp_path / "pipeline.yaml"

    def load(*sinks):
        path.write_text(
            "version: 1\nstreams: {door: {source: {kind: synthetic}}}\nscheduler: {policy: far_only}\n"
            f"links: {{lte: {{url: 'zmq://127.0.0.1:7440'}}}}\nsinks: [{', '.join(sinks)}]\n"
        )
        return load_pipeline(path)

    one = "{kind: jsonl, path: a, name: audit}"
    assert load(one, "{kind: stdout}").sinks[0].name == "audit"
    with pytest.raises(ConfigError, match="audit is another sink's name already"):
        load(one, "{kind: stdout, name: audit}")
    with pytest.raises(ConfigError, match="stdout is another sink's name already"):
        load("{kind: jsonl, path: a, name: stdout}", "{kind: stdout}")


def test_two_durable_sinks_of_a_kind_need_names_so_that_no_queue_changes_hands(tmp_path):
    webhook = {"kind": "webhook", "durable": True}
    blocks = [sink_config(**webhook, url=f"http://10.0.0.{n}/") for n in (1, 2)]
    faults = [where for where, _ in name_faults([("webhook", block) for block in blocks])]
    assert faults == [("sinks", 0, "durable"), ("sinks", 1, "durable")]
    blocks = [sink_config(**webhook, url=f"http://10.0.0.{n}/", name=f"w{n}") for n in (1, 2)]
    assert list(name_faults([("webhook", block) for block in blocks])) == []


def test_the_queue_of_a_sink_that_is_there_no_more_is_told_of_at_start(tmp_path, caplog):
    (tmp_path / "sinks").mkdir()
    (tmp_path / "sinks" / "plant.db").write_text("")
    build_sinks([], agent="gw", run=bytes(16), state_dir=tmp_path)
    assert "plant.db is the queue of no durable sink" in caplog.text


def test_a_sink_that_wants_to_end_the_program_only_fails_that_answer():
    class Quitter(Memory):
        def write(self, given):
            if given.id.seq == 1:
                raise SystemExit(3)
            super().write(given)

    sink = Quitter()
    thread = SinkThread(sink, name="quitter")
    thread.start()
    thread.offer(answer(1))
    thread.offer(answer(2))
    assert thread.close()
    assert (sink.seqs, thread.failed, thread.written) == ([2], 1, 1)


def test_when_the_thread_of_a_sink_dies_later_answers_are_dropped_counted_and_said(caplog):
    class Broken(Resequencer):
        def take(self, now_us):
            raise ZeroDivisionError

    sink = Memory()
    thread = SinkThread(sink, name="dying", resequencer=Broken())
    thread.start()
    thread.offer(answer(1))
    eventually(lambda: thread.trouble == "its thread ended", what="the end")
    assert not thread.offer(answer(2))
    assert thread.drained  # nobody waits for a dead one
    assert sink.closed
    assert thread.close()
    assert (thread.written, thread.failed, thread.dropped, thread.lost) == (0, 0, 2, 2)
    assert "its thread ends" in caplog.text


def test_when_one_sink_cannot_be_made_the_others_are_closed_again(tmp_path):
    (tmp_path / "taken").write_text("")
    configs = [
        sink_config(kind="socket", path=tmp_path / "s"),
        sink_config(kind="jsonl", path=tmp_path / "taken" / "a.jsonl"),
    ]
    with pytest.raises(ConfigError, match="taken"):
        build_sinks(configs, agent="gw", run=bytes(16), state_dir=tmp_path)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    "trouble", [OSError(24, "Too many open files"), RuntimeError("can't start new thread")]
)
def test_whatever_keeps_a_sink_from_being_made_the_others_are_closed_again(tmp_path, monkeypatch, trouble):
    made: list[Any] = []
    build = threads.build_sink

    def broken(config, place):
        if made:
            raise trouble
        made.append(build(config, place))
        return made[0]

    monkeypatch.setattr(threads, "build_sink", broken)
    configs = [sink_config(kind="socket", path=tmp_path / "s"), sink_config(kind="stdout")]
    expected = ConfigError if isinstance(trouble, OSError) else RuntimeError
    with pytest.raises(expected, match=r"stdout.* cannot be made: Too many|can't start"):
        build_sinks(configs, agent="gw", run=bytes(16), state_dir=tmp_path)
    assert not (tmp_path / "s").exists()


def test_a_queue_folder_that_cannot_be_looked_into_stops_no_agent(tmp_path, monkeypatch, caplog):
    def broken(self, pattern):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(type(tmp_path), "glob", broken)
    (made,) = build_sinks([sink_config(kind="stdout")], agent="gw", run=bytes(16), state_dir=tmp_path)
    assert made.close()
    assert "Permission denied" in caplog.text


def test_a_summary_has_what_its_kind_counts_besides():
    thread = SinkThread(Memory(), name="memory")
    thread.offer(answer())
    assert thread.close()
    assert thread.summary() == {"written": 1, "dropped": 0, "failed": 0, "seqs": 1}

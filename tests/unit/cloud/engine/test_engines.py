"""Engine processes from the front's side: detectors as good as local ones, over when their engine is, never in
silence."""

import os
import signal
import threading

import numpy as np
import psutil
import pytest

from cloud.engine.engines import Engines
from cloud.engine.recipe import Recipe
from cloud.engine.seat import Condition
from pipelines.errors import Fatal, Rejected, Retryable
from tests.support.engine_detectors import (
    BREAK,
    EXIT,
    LOCKED,
    LOOP,
    RECIPE,
    REJECT,
    SEGFAULT,
    SENSELESS,
    SLOW,
    engine_processes,
    engines,
    is_gone,
    picture,
)
from tests.support.eventually import eventually

MAKER = "tests.support.engine_detectors:obedient"
WITHIN_S = 60.0


def test_each_instance_runs_in_another_engine_and_answers_from_there():
    with engines(processes=2) as made:
        one, two = made.build("synthetic"), made.build("synthetic")
        assert len({one.pid, two.pid, os.getpid()}) == 3
        for detector in (one, two):
            found = detector.detect(picture(boxes=5))
            assert len(found) == 5
            assert round(float(found.scores[0]) * 2000) - 1 == detector.pid % 1000
        assert (one.name, one.labels, one.input_size) == ("obedient@32x24", ("thing", "other"), (32, 24))
        eventually(lambda: not made.trouble(), WITHIN_S)
        assert [state.condition for state in made.states()] == [Condition.READY] * 2
        assert made.pids() == [one.pid, two.pid]
        with pytest.raises(Fatal, match="taken"):
            made.build("synthetic")


def test_several_models_and_instances_share_the_engines_evenly():
    recipes = [Recipe(model=name, maker=MAKER, instances=2) for name in ("a", "b")]
    with engines(*recipes, processes=2) as made:
        built = {name: [made.build(name) for _ in range(4)] for name in ("a", "b")}
        for detectors in built.values():
            pids = [detector.pid for detector in detectors]
            assert pids[0] != pids[1]
            assert sorted(pids) == sorted([*set(pids)] * 2)
        assert len(engine_processes()) == 2


def test_an_engine_looks_through_nothing_it_has_loaded_for_garbage_once_all_of_it_is_there():
    recipe = Recipe(model="synthetic", maker="tests.support.engine_detectors:settled", instances=2)
    with engines(recipe) as made:
        detectors = [made.build("synthetic") for _ in range(2)]
        eventually(lambda: not made.trouble(), WITHIN_S)
        for detector in detectors:
            assert int(detector.detect(picture()).class_ids[0]) == 1


def test_a_batch_is_one_run_and_what_does_not_fit_together_is_several():
    with engines(memory_bytes=3 * 24 * 32 * 3 + 200) as made:
        detector = made.build("synthetic")
        assert detector.max_batch == 4
        together = detector.detect_batch([picture(boxes=i) for i in (1, 2, 3)])
        assert [len(found) for found in together] == [1, 2, 3]
        assert {int(found.class_ids[0]) for found in together} == {1}
        assert [len(f) for f in detector.detect_batch([picture(boxes=i) for i in range(1, 8)])] == [
            *range(1, 8)
        ]
        assert detector.detect_batch([]) == []
        assert detector.batch_limit == "it was made for four"


def test_a_picture_that_breaks_a_batch_is_found_by_asking_for_each_alone():
    with engines() as made:
        detector = made.build("synthetic")
        with pytest.raises(Fatal, match="as it was told"):
            detector.detect_batch([picture(), picture(BREAK)])
        assert len(detector.detect(picture())) == 1
        with pytest.raises(Fatal, match="as it was told"):
            detector.detect(picture(BREAK))
        with pytest.raises(Fatal, match="as it was told"):
            detector.detect(picture())


def test_a_rejected_picture_costs_only_itself_and_one_too_large_names_the_limit():
    with engines() as made:
        detector = made.build("synthetic")
        with pytest.raises(Rejected, match="told to reject"):
            detector.detect(picture(REJECT))
        with pytest.raises(Rejected, match=r"limits\.pixels"):
            detector.detect(np.zeros((1024, 1024, 3), np.uint8))
        assert len(detector.detect(picture())) == 1


def test_a_model_that_broke_is_loaded_again_in_the_same_engine():
    with engines() as made:
        detector = made.build("synthetic")
        with pytest.raises(Fatal, match="broke, as it was told"):
            detector.detect(picture(BREAK))
        again = made.build("synthetic")
        assert again.pid == detector.pid
        assert len(again.detect(picture())) == 1
        with pytest.raises(Fatal, match="broke, as it was told"):
            detector.detect(picture())


@pytest.mark.parametrize(
    ("does", "words"), [(SEGFAULT, r"crashed \(SIGSEGV\)"), (EXIT, "ended with exit code 3")]
)
def test_a_crash_ends_its_run_with_the_cause_and_the_next_engine_is_another_process(does, words, capfd):
    with engines() as made:
        detector = made.build("synthetic")
        with pytest.raises(Fatal, match=words):
            detector.detect(picture(does))
        again = made.build("synthetic")
        assert again.pid != detector.pid
        assert len(again.detect(picture())) == 1
        assert [state.restarts for state in made.states()] == [1]
    if does == SEGFAULT:
        assert "string_at" in capfd.readouterr().err, "the log says where in the code it was"


@pytest.mark.parametrize("does", [LOOP, LOCKED])
def test_a_run_that_never_ends_is_ended_with_its_engine(does):
    with engines(hang_after_us=2_000_000) as made:
        detector = made.build("synthetic")
        with pytest.raises(Fatal, match="no answer within 2s"):
            detector.detect(picture(does))
        again = made.build("synthetic")
        eventually(lambda: is_gone(detector.pid), WITHIN_S)
        assert len(again.detect(picture())) == 1


def test_a_slow_run_within_its_time_is_no_hang():
    with engines() as made:
        detector = made.build("synthetic")
        for _ in range(3):
            detector.detect(picture())
        assert len(detector.detect(picture(SLOW))) == 1


def test_an_engine_that_ended_while_it_had_nothing_to_do_costs_no_run_once_the_next_one_is_there():
    with engines() as made:
        detector = made.build("synthetic")
        old = detector.pid
        eventually(lambda: made.states()[0].condition is Condition.READY, WITHIN_S)
        os.kill(old, signal.SIGKILL)
        eventually(
            lambda: (s := made.states()[0]).condition is Condition.READY and s.pid != old,
            WITHIN_S,
            "a new one",
        )
        assert len(detector.detect(picture())) == 1
        assert detector.pid != old


def test_an_engine_killed_from_outside_is_said_with_its_cause_until_it_is_back():
    with engines() as made:
        made.build("synthetic")
        eventually(lambda: not made.trouble(), WITHIN_S)
        os.kill(made.pids()[0], signal.SIGKILL)
        eventually(lambda: "engine 0 was killed (SIGKILL)" in " ".join(made.trouble()), what="words")
        eventually(lambda: not made.trouble(), WITHIN_S)


# -- the end ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("does", [LOOP, LOCKED])
def test_stopping_ends_every_engine_whatever_it_does_and_whoever_waits_is_told(does):
    told: list[Fatal] = []

    def run():
        try:
            detector.detect(picture(does))
        except Fatal as error:
            told.append(error)

    with engines(processes=2) as made:
        detector = made.build("synthetic")
        thread = threading.Thread(target=run)
        thread.start()
        pids = eventually(lambda: p if 0 not in (p := made.pids()) else [], WITHIN_S)
        made.stop()
        assert all(is_gone(pid) for pid in pids)
        thread.join(5.0)
        assert len(told) == 1
        assert all(is_gone(pid) for pid in pids)
        with pytest.raises(Retryable):
            made.build("synthetic")
        assert made.trouble() == ["engine 0 was stopped", "engine 1 was stopped"]
        made.stop()


def test_engines_that_never_started_stop_too():
    Engines([RECIPE], processes=1, memory_bytes=1).stop()


def test_an_engine_holds_no_descriptor_of_the_front_but_its_own(tmp_path):
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        with engines() as made:
            made.build("synthetic")
            process = psutil.Process(made.pids()[0])
            assert process.open_files() == []
            assert process.net_connections("inet") == []


def test_a_model_that_prints_does_not_write_into_the_front_s_output(capfd):
    with engines(Recipe(model="m", maker="tests.support.engine_detectors:talkative")) as made:
        made.build("m")
    seen = capfd.readouterr()
    assert "a word on stdout" not in seen.out
    assert "a word on stdout" in seen.err


def test_a_result_nobody_can_make_sense_of_costs_its_run_and_not_the_engine():
    with engines() as made:
        detector = made.build("synthetic")
        with pytest.raises(Fatal, match="Error"):
            detector.detect(picture(SENSELESS))
        assert made.build("synthetic").pid == detector.pid

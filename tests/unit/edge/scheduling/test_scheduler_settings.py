"""What a file means to the scheduler: the same on a gateway and in a simulation."""

from pathlib import Path

import pytest

from edge.config.pipeline import PipelineConfig, load_pipeline
from edge.config.scheduler_settings import scheduler_settings, stream_settings
from edge.scheduling.ladder_cost import LadderCost
from edge.scheduling.priority_rule import PriorityRule
from edge.scheduling.rung import Rung
from edge.scheduling.settings import LinkSettings, SmallNear, Tracking
from nearfar.simulation.recipe import Assumed, set_up
from pipelines.errors import ConfigError
from pipelines.result import Priority
from protos.wire.session import StreamInfo
from tests.support.simulated import link

PIPELINE = """\
version: 1
deadline: 150ms
rtt_budget: {fall_back_above: 120ms, return_below: 60ms}
streams:
  door:
    source: {kind: synthetic, fps: 20}
    priority: high
    rules:
      - {when: {label: car, score_above: 30%, score_below: 0.8, count_at_least: 2, region: [0, 0.5, 1, 100%]}, priority: low}
      - {when: {}, priority: normal}
  yard: {source: {kind: synthetic, fps: 20}}
near: {detector: {kind: synthetic}, accuracy: 0.6, smaller: {input: 160x120, accuracy: 0.45}}
tracker: {kind: flow, max_age: 7, accuracy: 0.35}
links: {lte: {url: "zmq://10.0.0.5:7440"}}
scheduler:
  policy: confidence
  min_p: 40%
  byte_price: 0.002
  load_price: 0.01
  unsure_below: 55%
  weights: {high: 8, normal: 3, low: 0.5}
  hedge: {start: immediate, margin: 7ms}
  ladder:
    - {codec: jpeg, quality: 80, accuracy: 0.98, bytes: 37.3kB}
    - {codec: zstd, level: 3, scale: 0.5, accuracy: 0.9}
"""


@pytest.fixture
def config(tmp_path: Path) -> PipelineConfig:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    return load_pipeline(tmp_path / "p.yaml")


def test_every_word_of_the_file_that_concerns_it_reaches_the_scheduler(config: PipelineConfig) -> None:
    made = scheduler_settings(config, links=["lte"], near_prior_us=30_000, small_prior_us=9_000)
    assert (made.deadline_us, made.margin_us) == (150_000, 7_000)
    assert (made.fall_back_above_us, made.return_below_us) == (120_000, 60_000)
    assert (made.policy, made.hedge) == ("confidence", "immediate")
    assert (made.min_p, made.byte_price) == (0.4, 0.002)
    assert (made.load_price, made.unsure_below) == (0.01, 0.55)
    assert made.weights == {Priority.HIGH: 8.0, Priority.NORMAL: 3.0, Priority.LOW: 0.5}
    assert made.small_near == SmallNear(accuracy=0.45, prior_us=9_000)
    assert made.tracking == Tracking(accuracy=0.35, max_age=7)
    assert [made_link.name for made_link in made.links] == ["lte"]
    assert (made.near_accuracy, made.near_prior_us) == (0.6, 30_000)
    assert made.ladder == (
        Rung(codec="jpeg", quality=80, scale=1.0, accuracy=0.98, payload_bytes=37_300),
        Rung(codec="zstd", quality=0, scale=0.5, accuracy=0.9),
    )


def test_each_link_has_its_prices_and_frames_that_matter_may_go_over_two(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        PIPELINE.replace(
            'links: {lte: {url: "zmq://10.0.0.5:7440"}}',
            "links:\n"
            '  lte: {url: "zmq://10.0.0.5:7440", metered: true, data_budget: {per_hour: 200MB, per_day: 1GB}}\n'
            '  cable: {url: "grpc://10.0.0.6:7443"}',
        ).replace("  min_p:", "  duplicate: {priorities: [high, normal], share: 20%}\n  min_p:")
    )
    config = load_pipeline(tmp_path / "p.yaml")
    made = scheduler_settings(config, links=["lte", "cable"], near_prior_us=None)
    assert made.links == (
        LinkSettings(name="lte", metered=True, bytes_per_hour=200_000_000, bytes_per_day=1_000_000_000),
        LinkSettings(name="cable"),
    )
    assert (made.duplicate, made.duplicate_share) == (frozenset({Priority.HIGH, Priority.NORMAL}), 0.2)
    assert scheduler_settings(config, links=["memory"], near_prior_us=None).links == (
        LinkSettings(name="memory"),
    )


def test_a_near_that_was_not_loaded_is_worth_nothing(config: PipelineConfig) -> None:
    made = scheduler_settings(config, links=["lte"], near_prior_us=None)
    assert (made.near_accuracy, made.small_near) == (None, None)


def test_a_simulation_runs_the_settings_a_gateway_would(config: PipelineConfig) -> None:
    setup = set_up(config, link(name="trace"), assumed=Assumed(frames=10, near_us=30_000))
    prior_us = setup.settings.near_prior_us
    assert setup.settings.small_near is not None
    small_us = setup.settings.small_near.prior_us
    assert small_us < prior_us / 3, "as much quicker as it has fewer pixels"
    assert setup.settings == scheduler_settings(
        config, links=["lte"], near_prior_us=prior_us, small_prior_us=small_us
    )


def test_a_stream_without_a_picture_yet_is_guessed_at_the_size_it_is_sent_in(config: PipelineConfig) -> None:
    infos = [
        StreamInfo(name="door", width_px=320, height_px=240),
        StreamInfo(name="yard", width_px=0, height_px=0),
    ]
    made = stream_settings(config, infos)
    assert (made["door"].pixels, made["door"].size_px) == (320 * 240, (320, 240))
    assert (made["yard"].pixels, made["yard"].size_px) == (640 * 640, (0, 0))
    assert (made["door"].priority, made["yard"].priority) == (Priority.HIGH, Priority.NORMAL)


def test_rules_of_a_stream_reach_the_scheduler_in_their_order(config: PipelineConfig) -> None:
    infos = [StreamInfo(name=name, width_px=320, height_px=240) for name in ("door", "yard")]
    made = stream_settings(config, infos)
    assert made["yard"].rules == ()
    assert made["door"].rules == (
        PriorityRule(
            priority=Priority.LOW,
            label="car",
            score_above=0.3,
            score_below=0.8,
            count=2,
            region=(0.0, 0.5, 1.0, 1.0),
        ),
        PriorityRule(priority=Priority.NORMAL),
    )


def test_a_lossless_rung_is_expected_to_weigh_more_than_any_jpeg() -> None:
    best = Rung(codec="jpeg", quality=100, scale=1.0, accuracy=1.0)
    lossless = Rung(codec="zstd", quality=0, scale=1.0, accuracy=1.0)
    assert lossless.prior_bytes(320 * 240) > best.prior_bytes(320 * 240)


def test_what_was_measured_of_a_rung_is_expected_instead_of_a_guess() -> None:
    guessed = Rung(codec="jpeg", quality=80, scale=1.0, accuracy=1.0)
    measured = Rung(codec="jpeg", quality=80, scale=1.0, accuracy=1.0, payload_bytes=4_000)
    assert LadderCost([guessed, measured], 640 * 480).size_bytes(0) > 4_000
    assert LadderCost([guessed, measured], 640 * 480).size_bytes(1) == 4_000


def test_a_payload_of_no_bytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE.replace("37.3kB", "0B"))
    with pytest.raises(ConfigError, match=r"ladder\.0\.bytes: a payload has at least one byte"):
        load_pipeline(tmp_path / "p.yaml")

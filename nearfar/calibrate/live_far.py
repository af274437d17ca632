"""A running worker as the far side of a calibration, over a link of the recipe: one picture at a time.

It is asked like any agent asks, under a name and a run of its own, one frame at a time and with much time left. The
reference is the picture without loss. The worker keeps records of these frames too, under that name.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue

from edge.config.pipeline import PipelineConfig
from edge.links.base import Connected, Disconnected, Link, LinkEvent, Received, Refused, Sent
from edge.links.kinds import LINKS
from nearfar.calibrate.far_side import FarAnswer
from pipelines.codecs.base import Codec
from pipelines.codecs.kinds import CODECS
from pipelines.errors import ConfigError, Fatal, Rejected
from pipelines.frame import Encoding, Picture, new_run
from pipelines.result import Detections
from pipelines.runtime import monotonic_us
from pipelines.units import format_extent
from protos.wire.live import FrameBody, FrameHead, Reject, Result
from protos.wire.session import Hello, Lane, ModelInfo, RejectReason, StreamInfo, Welcome

WELCOME_WITHIN_S = 5.0
ANSWER_WITHIN_S = 20.0
TRIES = 5
"""Of a frame that was rejected because the worker was busy."""
_LOSSLESS = "png"
_SUFFIX = "-calibrate"
_LONGEST_NAME = 63
_STREAM = "clip"
_BUSY = (RejectReason.TOO_LATE, RejectReason.EXPIRED, RejectReason.QUEUE_FULL, RejectReason.OVER_CREDIT)
_REFUSED = (RejectReason.TOO_LARGE, RejectReason.BAD_PAYLOAD)


class LiveFar:
    """Welcomed with `welcome` over `link`; `events` come from its threads."""

    def __init__(self, link: Link, welcome: Welcome, events: "SimpleQueue[LinkEvent]") -> None:
        if not welcome.models:
            raise ConfigError(f"the worker of link {link.name} serves no model; its /readyz says why")
        self._link = link
        self._model: ModelInfo = welcome.models[0]
        self._message_bytes = welcome.limits.message_bytes
        self._events = events
        self._seq = 0
        self._lossless: Codec = CODECS[_LOSSLESS].resolve()()

    @property
    def name(self) -> str:
        return f"{self._model.name} ({format_extent(self.input_size)}, over {self._link.name})"

    @property
    def labels(self) -> tuple[str, ...]:
        return self._model.labels

    @property
    def input_size(self) -> tuple[int, int]:
        return self._model.input_width_px, self._model.input_height_px

    @property
    def sha256(self) -> str:
        return self._model.sha256

    def best(self, picture: Picture) -> Detections:
        payload, encoding = self._lossless.encode(picture, quality=0)
        height_px, width_px = picture.shape[:2]
        try:
            return self.answer(payload, encoding, size_px=(width_px, height_px)).detections
        except Rejected as error:
            raise ConfigError(
                f"the worker does not take the pictures of this clip without loss: {error}; raise its limits, or run "
                "its model here: --worker WORKER.yaml"
            ) from error

    def answer(self, payload: bytes, encoding: Encoding, *, size_px: tuple[int, int]) -> FarAnswer:
        for _ in range(TRIES):
            answer = self._ask(payload, encoding, size_px)
            if isinstance(answer, Result):
                timing = answer.timing
                return FarAnswer(self._named(answer.detections), timing.decode_us + timing.detect_us)
            if answer.reason in _REFUSED:
                raise Rejected(answer.text or answer.reason)
            if answer.reason not in _BUSY:
                raise Fatal(f"the worker refuses the frame, {answer.reason}: {answer.text}")
        raise Fatal(f"the worker was too busy {TRIES} times: calibrate when it has less to do")

    def _ask(self, payload: bytes, encoding: Encoding, size_px: tuple[int, int]) -> Result | Reject:
        self._seq += 1
        head = FrameHead(
            stream=0,
            seq=self._seq,
            worker_budget_us=int(ANSWER_WITHIN_S * 1e6),
            sent_mono_us=monotonic_us(),
            encoding=encoding,
            source_width_px=size_px[0],
            source_height_px=size_px[1],
        )
        match self._link.send(head, FrameBody(stream=0, seq=self._seq, data=payload)):
            case Sent.TOO_LARGE:
                raise Rejected(
                    f"{len(payload) / 1e6:.1f} MB are above the worker's limits.message of {self._message_bytes / 1e6:.1f} MB"
                )
            case Sent.ACCEPTED:
                return self._reply(self._seq)
            case not_sent:
                raise self._lost(f"the frame could not be sent ({not_sent})")

    def _reply(self, seq: int) -> Result | Reject:
        until_s = time.monotonic() + ANSWER_WITHIN_S
        while (left_s := until_s - time.monotonic()) > 0:
            try:
                event = self._events.get(timeout=left_s)
            except Empty:
                break
            if isinstance(event, Disconnected) and event.lane is Lane.LIVE:
                raise self._lost(event.reason)
            message = event.message if isinstance(event, Received) else None
            if isinstance(message, Result | Reject) and message.seq == seq:
                return message
        raise self._lost(f"no answer within {ANSWER_WITHIN_S:g} s")

    def _lost(self, why: str) -> Fatal:
        return Fatal(f"link {self._link.name}: {why}; nothing is written. Try: nearfar doctor PIPELINE.yaml")

    def _named(self, found: Detections) -> Detections:
        """A result may leave its labels to what the welcome said of its model."""
        if found.labels:
            return found
        return Detections(found.boxes, found.scores, found.class_ids, self._model.labels)


@contextmanager
def live_far(config: PipelineConfig, name: str) -> Iterator[LiveFar]:
    """The worker behind the link `name` of the recipe, until the block ends.

    Raises ConfigError for a link there is none of or a worker that refuses, Fatal for one that does not answer.
    """
    if name not in config.links:
        there = ", ".join(config.links) or "no link in it"
        raise ConfigError(f"--link {name}: the pipeline has no such link; there is {there}")
    url = config.links[name].url
    events: SimpleQueue[LinkEvent] = SimpleQueue()
    link: Link = LINKS[url.partition("://")[0]].resolve()(name=name, url=url, clock_us=monotonic_us)
    agent = config.agent or "gateway"
    hello = Hello(
        agent=agent[: _LONGEST_NAME - len(_SUFFIX)] + _SUFFIX,
        run=new_run(),
        lane=Lane.LIVE,
        streams=(StreamInfo(name=_STREAM, width_px=0, height_px=0),),
        software="nearfar calibrate",
    )
    try:
        link.start(config.far.asked_in(hello), events.put)
        yield LiveFar(link, _welcome(events, name, url), events)
    finally:
        link.close()


def _welcome(events: "SimpleQueue[LinkEvent]", name: str, url: str) -> Welcome:
    until_s = time.monotonic() + WELCOME_WITHIN_S
    while (left_s := until_s - time.monotonic()) > 0:
        try:
            event = events.get(timeout=left_s)
        except Empty:
            break
        if isinstance(event, Refused) and event.lane is Lane.LIVE:
            raise ConfigError(
                f"the worker at {url} refuses: {event.error.text}; nothing is written. "
                "Try: nearfar doctor PIPELINE.yaml"
            )
        if isinstance(event, Connected) and event.lane is Lane.LIVE:
            return event.welcome
    raise Fatal(
        f"no worker answers at {url} (link {name}) within {WELCOME_WITHIN_S:g} s; try: nearfar doctor PIPELINE.yaml, or run "
        "its model here: --worker WORKER.yaml"
    )

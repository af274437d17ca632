"""What parts report to before there is a dispatcher, which is made last; nothing happens until it is started.

Passes each report on as it is, on the thread that brings it.
"""

from edge.far.bulk_way import BulkWay
from edge.flow.dispatcher import Dispatcher
from edge.flow.encoder import Encoded
from edge.flow.track_runner import TrackRun
from edge.links.base import Sent
from edge.near.runner import NearRun
from pipelines.frame import Frame, FrameId
from protos.wire.messages import ToWorker


class Reports:
    """Set `to` and `bulk` before any part is started."""

    to: Dispatcher
    bulk: BulkWay

    def offered(self, stream: str) -> None:
        self.to.offered(stream)

    def overwritten(self, frame: Frame) -> None:
        self.to.overwritten(frame)

    def stale(self, frame: Frame) -> None:
        self.to.stale(frame)

    def gated(self, frame: Frame, why: str) -> None:
        self.to.gated(frame, why)

    def captured(self, stream: str, seq: int) -> None:
        self.to.captured(stream, seq)

    def committed(self, frame_id: FrameId) -> None:
        self.to.committed(frame_id)

    def near_done(self, run: NearRun) -> None:
        self.to.near_done(run)

    def tracked(self, run: TrackRun) -> None:
        self.to.tracked(run)

    def encoded(self, encoded: Encoded) -> None:
        self.to.encoded(encoded)

    def send_bulk(self, message: ToWorker) -> Sent:
        return self.bulk.send(message)

    def bulk_overdue(self) -> None:
        self.bulk.open_fresh()

"""All links of one agent behind one door: what the scheduler wants is carried out by the link it names, a payload is
encoded once for all of them, and what a link reports goes to its own port.

Owned by the dispatcher thread; nothing here blocks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from edge.far.accord import Accord
from edge.far.budget_book import BudgetBook
from edge.far.bulk_way import BulkWay
from edge.far.lookouts import Lookouts
from edge.far.port import FarPort
from edge.far.sight import LinkSight
from edge.flow.answer_desk import AnswerDesk
from edge.flow.encoder import Encoder
from edge.flow.pending import Pending
from edge.flow.stream_port import StreamPort
from edge.links.base import Link, LinkEvent
from edge.outbox.port import Outbox
from edge.scheduling.actions import Action, CancelFar, Encode, FarAction, OpenFresh, SendFrame, SendPing
from edge.scheduling.key import Key
from edge.scheduling.scheduler import Scheduler
from edge.telemetry.counters import Counters
from protos.wire.live import Result


class FarPorts:
    """Iterates over its ports in the order of `links`. `pending` are the open frames; `bulk` carries the backfill.
    `write_link` takes a line about a link, None = nobody keeps one; `book` keeps what is used of data budgets;
    `near`: whether frames are answered without any link; `on_result` is called with every far result, however
    late."""

    def __init__(
        self,
        pending: Mapping[Key, Pending],
        *,
        links: Sequence[Link],
        bulk: BulkWay,
        encoder: Encoder,
        scheduler: Scheduler,
        outbox: Outbox,
        desk: AnswerDesk,
        counters: Counters,
        streams: Sequence[StreamPort],
        clock_us: Callable[[], int],
        near: bool,
        on_result: Callable[[Key, Result], None],
        write_link: Callable[[LinkSight], None] | None = None,
        book: BudgetBook | None = None,
    ) -> None:
        self._encoder = encoder
        self._ladder = scheduler.settings.ladder
        self._pending = pending
        self._accord = Accord()
        self._ports = {
            link.name: FarPort(
                link=link,
                scheduler=scheduler,
                accord=self._accord,
                bulk=bulk,
                outbox=outbox,
                desk=desk,
                counters=counters,
                streams=streams,
                pending=pending,
                clock_us=clock_us,
                on_result=on_result,
            )
            for link in links
        }
        self._lookouts = Lookouts(
            tuple(self),
            bulk=bulk,
            scheduler=scheduler,
            outbox=outbox,
            write_link=write_link,
            near=near,
            book=book,
        )

    def __iter__(self) -> Iterator[FarPort]:
        return iter(self._ports.values())

    def __getitem__(self, link: str) -> FarPort:
        return self._ports[link]

    def __len__(self) -> int:
        return len(self._ports)

    @property
    def sights(self) -> Sequence[LinkSight]:
        """The links as they were seen last, none before the first look; from any thread."""
        return self._lookouts.sights

    def look(self, now_us: int, *, at_once: bool = False) -> None:
        """Time has passed, or something happened; `at_once`: `sights` are of now, not of up to 50 ms ago."""
        self._lookouts.turn(now_us, at_once=at_once)

    def act(self, action: FarAction) -> Sequence[Action]:
        """Have the link that `action` names carry it out; what the scheduler decides when that fails at once."""
        match action:
            case Encode(key, rung):
                self._encode(key, rung)
            case SendFrame(link=link):
                return self._ports[link].send(action)
            case CancelFar(key, link):
                self._ports[link].cancel(key)
            case SendPing(link, nonce):
                self._ports[link].ping(nonce)
            case OpenFresh(link):
                self._ports[link].open_fresh()
        return ()

    def happened(self, link: str, event: LinkEvent) -> Sequence[Action]:
        """What the scheduler decides about something `link` reported."""
        return self._ports[link].happened(event)

    def _encode(self, key: Key, rung_index: int) -> None:
        """Order the payload of a frame at a rung of the ladder: scaled to the far model's input, never up."""
        pending = self._pending[key]
        frame, rung = pending.frame, self._ladder[rung_index]
        size = rung.size_px((frame.width_px, frame.height_px), self._accord.input_px)
        pending.rung = rung_index
        self._encoder.submit(key, frame.picture, rung=rung_index, quality=rung.quality, size=size)

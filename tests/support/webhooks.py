"""The courier of a webhook without its queue, and parcels for it."""

from contextlib import contextmanager

from edge.sinks.delivery.parcel import packed
from edge.sinks.kinds import SINKS
from edge.sinks.place import Place
from tests.support.answers import answer
from tests.support.sinks import sink_config


def parcels(*seqs):
    return [packed(answer(seq), number=seq, born_us=0) for seq in seqs]


@contextmanager
def couriers(folder):
    """Makes couriers by the keys of their block; all are closed at the end."""
    made = []

    def make(**settings):
        config = sink_config(kind="webhook", **settings)
        place = Place(name="webhook", agent="gw", run=bytes(16), folder=folder)
        made.append(SINKS["webhook"].resolve().from_config(config, place))
        return made[-1]

    yield make
    for one in made:
        one.close()

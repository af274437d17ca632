"""A frame that the thread which brought it may run, since nothing is before it and an instance of its model sleeps."""

from typing import NamedTuple

from cloud.backlog.jobs import Job
from cloud.backlog.waiting_room import Seat

QUICK_US = 300
"""Of decoding and detection together, in the median: what it costs to have another thread woken, and some more."""


class Lead(NamedTuple):
    """It is run in the place of the instance that sleeps in `seat`. `quick`: it is sooner done than another thread is
    woken."""

    job: Job
    seat: Seat
    quick: bool


class DetectorBrokenError(Exception):
    """The detector of this instance broke while another thread ran a frame in its place."""

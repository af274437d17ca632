"""The far way: what the link and the worker would do to a frame, and whether one may be sent at all."""

from collections.abc import Iterable

from edge.scheduling.breaker import Breaker
from edge.scheduling.job import Far, Job
from edge.scheduling.link_estimate import LinkEstimate
from pipelines.result import Load, WorkerTiming
from protos.wire.session import Credit

VANISHED_FRAMES = 3
FORGET_US = 2_000_000
SAMPLE_EVERY_US = 1_000_000


class FarWay:
    """Link estimate, breaker and credit of one link, fed by the scheduler."""

    def __init__(self, *, fall_back_above_us: int, return_below_us: int) -> None:
        self.link = LinkEstimate()
        self.breaker = Breaker(fall_back_above_us=fall_back_above_us, return_below_us=return_below_us)
        self._credit = Credit(frames=1, bytes=1 << 20)
        self._connection = 0
        self._last_sent_us = 0
        self._vanished = 0

    # -- what may be sent ---------------------------------------------------------------------------------

    @staticmethod
    def in_flight_bytes(jobs: Iterable[Job]) -> int:
        return sum(job.size_bytes for job in jobs if job.far is Far.SENT)

    def has_credit(self, jobs: Iterable[Job], size_bytes: int) -> bool:
        """Whether the worker's window has room for one more frame of `size_bytes`."""
        open_jobs = [job for job in jobs if job.far_open]
        flying_bytes = self.in_flight_bytes(open_jobs)
        return len(open_jobs) < self._credit.frames and flying_bytes + size_bytes <= self._credit.bytes

    def sample_due(self, now_us: int) -> bool:
        """Nothing was sent for a while: without samples a link never looks better than it did."""
        return now_us - self._last_sent_us >= SAMPLE_EVERY_US

    def sent(self, job: Job, *, size_bytes: int, in_flight_bytes: int, now_us: int) -> None:
        job.nominal_us = self.link.nominal_us(
            size_bytes=size_bytes, in_flight_bytes=in_flight_bytes, now_us=now_us
        )
        job.size_bytes, job.sent_us, job.far, job.connection = size_bytes, now_us, Far.SENT, self._connection
        self._last_sent_us = now_us

    # -- what comes back ----------------------------------------------------------------------------------

    def heard(self, load: Load, now_us: int, *, of_a_frame: bool) -> None:
        """The worker answered; a frame that came back did not vanish."""
        self.link.observe_load(load)
        self.breaker.heard(now_us)
        if of_a_frame:
            self._vanished = 0

    def measure(self, job: Job, timing: WorkerTiming, now_us: int) -> None:
        """A result of a frame that was out."""
        rtt_us = self.link.observe_frame(
            size_bytes=job.size_bytes,
            sent_us=job.sent_us,
            arrived_us=now_us,
            nominal_us=job.nominal_us,
            timing=timing,
        )
        self.breaker.round_trip(rtt_us, now_us, live=True)
        if job.probe and self.breaker.probe_ended(job.key, rtt_us=rtt_us, now_us=now_us):
            self.link.forget_slowness(now_us, keep=2)

    def failed(self, job: Job, now_us: int) -> None:
        """A frame will not come back; as a probe it speaks against the link."""
        if job.probe:
            self.breaker.probe_ended(job.key, rtt_us=None, now_us=now_us)

    def overdue(self, job: Job, now_us: int) -> None:
        """An unanswered frame at its answer time counts against the link, once."""
        job.overdue = True
        self.link.observe_overdue(sent_us=job.sent_us, nominal_us=job.nominal_us, now_us=now_us)
        self.breaker.frame_overdue(now_us)
        self.failed(job, now_us)
        self._vanished += 1
        if self._vanished >= VANISHED_FRAMES and self.breaker.pings_pass(since_us=job.sent_us):
            self.breaker.frames_vanish(now_us)

    def pong(
        self,
        nonce: int,
        *,
        resident_us: int,
        load: Load,
        credit: Credit | None,
        jobs: Iterable[Job],
        now_us: int,
    ) -> None:
        """A ping's answer; our own frames queued ahead of it do not count against the link."""
        if credit is not None:
            self._credit = credit
        self.heard(load, now_us, of_a_frame=False)
        sent_us = self.breaker.ping_sent_us(nonce)
        if sent_us is None or not self.breaker.pong(nonce, now_us):
            return
        ahead_bytes = self.in_flight_bytes(job for job in jobs if job.sent_us <= sent_us)
        raw_us = now_us - sent_us - resident_us
        rtt_us = max(0, int(raw_us - ahead_bytes / self.link.bytes_per_us(now_us)))
        # What is subtracted is an estimate: it may excuse a round trip, it must not make a minimum.
        self.link.observe_rtt(raw_us, now_us)
        self.breaker.round_trip(rtt_us, now_us, live=False)

    def welcomed(self, connection: int, credit: Credit, now_us: int) -> None:
        self._connection = connection
        self._credit = credit
        self.breaker.welcomed(now_us)

    def left_behind(self, job: Job, now_us: int) -> bool:
        """Whether an answered frame is no longer waited for: another connection, or too long ago. Its result
        may still come and be late; it no longer fills the link."""
        if not job.given or job.far is not Far.SENT:
            return False
        return job.connection != self._connection or now_us - job.sent_us > FORGET_US

"""What packet loss costs a message of a TCP connection: how many packets are sent again, and how much later it is.

P(hit) = 1 − (1 − loss/burst)^packets, one burst a message
repair = 1 RTT if three packets follow (RFC 6675), 2 RTT in the tail (tail loss probe, RFC 8985), an RTO for a
         message of one packet, and an RTO more, doubling (RFC 6298), as long as the repair is lost as well
"""

from math import ceil

from nearfar.simulation.dice import Dice, Purpose

SEGMENT_BYTES = 1448
LEAST_RTO_US = 200_000
TAIL_PACKETS = 3
PROBE_SLACK_US = 2_000
MOST_REPAIRS = 8


def packets_of(size_bytes: int) -> int:
    return max(1, ceil(size_bytes / SEGMENT_BYTES))


def packets_lost(
    size_bytes: int, dice: Dice, *, share: float, burst: float, purpose: Purpose, number: int
) -> int:
    """Packets of this message that are lost: 0, or one burst."""
    if not share:
        return 0
    packets = packets_of(size_bytes)
    hit = 1.0 - (1.0 - min(1.0, share / burst)) ** packets
    return min(packets, max(1, round(burst))) if dice.uniform(purpose, number) < hit else 0


def repair_us(
    size_bytes: int,
    dice: Dice,
    *,
    rtt_us: int,
    share: float,
    purpose: Purpose,
    number: int,
    followed: bool = False,
) -> int:
    """How much later the message is complete, when some of it was lost with probability `share` a packet.

    `followed`: at least three packets of another message come right behind it.
    """
    packets = packets_of(size_bytes)
    rto_us = LEAST_RTO_US + rtt_us
    fate = number * len(Purpose) + purpose
    if followed:
        late_us = rtt_us
    elif packets == 1:
        late_us = rto_us
    elif dice.uniform(Purpose.WHICH_LOST, fate) * packets < packets - TAIL_PACKETS:
        late_us = rtt_us
    else:
        late_us = min(rto_us, 2 * rtt_us + PROBE_SLACK_US)
    for again in range(MOST_REPAIRS):
        if dice.uniform(Purpose.LOST_AGAIN, fate * MOST_REPAIRS + again) >= share:
            break
        late_us += rto_us
        rto_us *= 2
    return late_us

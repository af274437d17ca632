"""What becomes of pictures somebody could send: wanted, referred to without a byte of theirs, or done with.

A row alone settles nothing: what counts as held has its file, of the row's size. What was held and is lost is wanted
again, so that sending it once more heals the store. A picture that was evicted is done with while there is no room for
it; where there is, it is not known whether it was evicted or lost, and it is wanted.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cloud.store.payloads.ref import PayloadRef
from pipelines.frame import FrameId

Offer = tuple[FrameId, PayloadRef]


@dataclass(slots=True)
class Sorted:
    """`wanted`: indexes. `shared`: to be referred to, with the size of what is held. `too_large`: more than the quota."""

    wanted: list[int] = field(default_factory=list)
    shared: list[Offer] = field(default_factory=list)
    too_large: int = 0


def sort_offers(
    offers: Sequence[Offer],
    *,
    present: Mapping[FrameId, PayloadRef],
    sound: Mapping[str, int],
    lost: Collection[str],
    room_bytes: int,
    max_bytes: int,
) -> Sorted:
    """`present`: what the frames refer to. `sound`: hash → bytes of what is held; `lost`: has a row and no sound file."""
    found = Sorted()
    for index, (identity, ref) in enumerate(offers):
        size_bytes = sound.get(ref.sha256, ref.encoding.body_bytes)
        has = present.get(identity)
        if has is not None and has.encoding.body_bytes >= size_bytes and has.sha256 not in lost:
            fits_again = has.sha256 == ref.sha256 and size_bytes <= room_bytes
            if has.sha256 in sound or not fits_again:
                continue
        if ref.sha256 in sound:
            encoding = replace(ref.encoding, body_bytes=size_bytes)
            found.shared.append((identity, replace(ref, encoding=encoding)))
        elif size_bytes > max_bytes:
            found.too_large += 1
        else:
            found.wanted.append(index)
    return found


def giving_way(
    offers: Sequence[Offer], present: Mapping[FrameId, PayloadRef], lost: Collection[str]
) -> set[FrameId]:
    """Frames whose picture is lost and another one comes: it takes the place, though it may be smaller."""
    return {
        identity
        for identity, ref in offers
        if (has := present.get(identity)) is not None and has.sha256 in lost and has.sha256 != ref.sha256
    }

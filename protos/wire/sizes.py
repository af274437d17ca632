"""How large a message is on the wire, told without packing a frame."""

from protos.wire import bulk, live, messages
from protos.wire.messages import ToWorker


def largest_part_bytes(message: ToWorker) -> int:
    """The bytes a worker's `limits.message_bytes` speaks of: a frame's payload, a batch as serialised.

    0 for what is always small: its size is bounded by the configuration it comes from.
    """
    match message:
        case live.FrameBody():
            return len(message.data)
        case bulk.BulkBatch():
            return messages.encode(message).ByteSize()
        case _:
            return 0

"""One side of a peer in a process of its own: `python -m tests.bench.peers.child serve|client NAME [PORT]`.

It speaks JSON, a line at a time, over the stdin and stdout it was started with; whatever the peer itself prints goes
to stderr. Both sides end when stdin closes.
"""

import json
import os
import statistics
import sys
from collections.abc import Callable
from typing import Any, cast

from tests.bench.peers.base import WindowClient
from tests.bench.peers.kinds import PEERS, Peer

Say = Callable[[Any], None]


def serve(peer: Peer, say: Say) -> None:
    """Say the port, then serve."""
    with peer.resolve_serving()() as port:
        say({"port": port})
        sys.stdin.read()


def drive(peer: Peer, port: int, say: Say) -> None:
    """Measure what each line asks for: `size_bytes`, `frames`, and a `window` of 1 or more."""
    client = peer.resolve_client()(port)
    say({"connected": True})
    for line in sys.stdin:
        asked = json.loads(line)
        body = os.urandom(asked["size_bytes"])
        if asked["window"] > 1:
            flow = cast("WindowClient", client).flow
            say({"per_s": flow(body, frames=asked["frames"], window=asked["window"])})
        else:
            took_us = sorted(client.closed(body, frames=asked["frames"]))
            say(
                {
                    "p50_us": statistics.median_high(took_us),
                    "p99_us": took_us[(99 * len(took_us) - 1) // 100],
                    "per_s": 1e6 * len(took_us) / sum(took_us),
                }
            )
    client.close()


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(what: object) -> None:
        print(json.dumps(what), file=out, flush=True)

    role, name, *port = sys.argv[1:]
    if role == "serve":
        serve(PEERS[name], say)
    else:
        drive(PEERS[name], int(port[0]), say)
    sys.stderr.flush()
    os._exit(0)  # a peer's threads may never end


if __name__ == "__main__":
    main()

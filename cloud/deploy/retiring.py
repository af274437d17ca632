"""Whether Serve has told this replica to end.

Serve waits for the requests of a replica before it ends it, and tells the replica nothing meanwhile; an agent's
stream is a request that lasts for days. What it waits with is read where Ray keeps this actor. Where a later Ray
keeps it elsewhere, the answer is no: streams then go on until Serve's time is over and are cut, which costs the
frames in work their far answer and no record.
"""

from typing import Any

from ray._private import worker as ray_worker


def told_to_end() -> bool:
    """From any thread of a replica."""
    actors: dict[Any, Any] = getattr(ray_worker.global_worker, "actors", {})
    replicas = [getattr(actor, "_replica_impl", None) for actor in tuple(actors.values())]
    return any(getattr(replica, "_shutting_down", False) is True for replica in replicas)

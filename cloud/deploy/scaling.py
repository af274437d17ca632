"""How many replicas there should be: as many as keep each at `busy`, the share of its models' time that is in use.

Open streams say nothing about work (an agent keeps two for days, whatever it sends), so they are not what is counted.
Serve holds the answer within its bounds and waits as long as it was told. It ships this file's code to its controller
as it stands, so nothing of ours is imported here.
"""

from typing import Any

BUSY = "nearfar_busy"
"""The name under which each replica reports its share, 0 to 1."""


class ByBusyness:
    """`busy` in (0, 1]. Desired = sum of the replicas' shares / `busy`: the formula of Kubernetes' autoscaler."""

    def __init__(self, busy: float) -> None:
        self._busy = busy

    def __call__(self, context: Any) -> tuple[float, dict[str, Any]]:
        """Serve's question; a replica that has not reported yet does nothing."""
        shares = (context.aggregated_metrics or {}).get(BUSY, {})
        if not shares:  # nobody has reported: nothing is known, nothing changes
            return context.target_num_replicas, {}
        return max(1.0, sum(shares.values()) / self._busy), {}

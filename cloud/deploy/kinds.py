"""Where a worker can run beyond its own process, resolved only when one is asked for."""

from cloud.deploy.settings import RayConfig
from pipelines.registry import Family, Kind

DEPLOYMENTS = Family(
    "deployment",
    Kind(
        name="ray",
        config=RayConfig,
        target="cloud.deploy.cluster:RayCluster",
        words="Ray Serve: replicas on the nodes of a cluster, added and removed by how busy they are",
        extra="ray",
        needs=("ray",),
    ),
)

"""The application Serve builds and runs: one deployment, whose replicas are workers. Needs `nearfar[ray]`."""

from collections.abc import Mapping
from typing import Any

from ray import serve

from cloud.config import load_worker
from cloud.deploy import serve_options
from cloud.deploy.replica import Replica
from cloud.deploy.retiring import told_to_end


def application(arguments: Mapping[str, Any]) -> Any:
    """Serve's application from what `serve_options.arguments` gives; the path is one of this node.

    Raises ConfigError for a file that has to be mended.
    """
    worker, overrides = str(arguments["worker"]), [str(item) for item in arguments.get("set", ())]
    config = load_worker(worker, overrides)
    serve_options.must_fit(config)
    deployment = serve.deployment(
        Replica, name=serve_options.DEPLOYMENT, **serve_options.deployment_options(config)
    )
    return deployment.bind(worker, overrides, told_to_end)

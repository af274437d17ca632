"""Whether this machine has an IPv6 loopback: containers often have none."""

import os
import socket

import pytest


def need_ipv6() -> None:
    """Skip the test without one; in CI, fail it."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError as error:
        words = f"needs an IPv6 loopback: {error}"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)

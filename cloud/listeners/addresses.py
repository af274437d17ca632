"""Why an address cannot be listened on, in the system's own words."""

import socket


def why_not_bound(host: str, port: int) -> str:
    """The system's own words about an address gRPC could not bind: gRPC has none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host.strip("[]"), port))
            probe.listen(1)
    except OSError as error:
        return error.strerror or str(error)
    return "gRPC could not bind it"

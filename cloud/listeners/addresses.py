"""Why an address cannot be listened on, and what to do about it, in one sentence whoever wanted to listen there."""

import errno
import os
import socket

from cloud.listeners.port_holder import who_listens
from pipelines.errors import ConfigError, Problem


def not_bound(key: str, address: str, error: OSError) -> ConfigError:
    """`key` is where the file says `address` (`HOST:PORT`); `error` is the system's."""
    if isinstance(error, socket.gaierror):  # its numbers are the resolver's, not the system's
        words, advice = error.strerror, "; write an address this machine has, or a name that leads to one"
    else:
        words = os.strerror(error.errno) if error.errno else str(error)
        advice = _advice(address, error.errno)
    return ConfigError(Problem(f"{address} cannot be bound: {words}{advice}", key))


def bind_fault(host: str, port: int) -> OSError | None:
    """The system's own error about an address, for a library that has no words or others for it: found by trying; None when it
    can be bound. Port 0 always can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host.strip("[]"), port))
            probe.listen(1)
    except OSError as error:
        return error
    return None


def _advice(address: str, number: int | None) -> str:
    port = int(address.rpartition(":")[2])
    if number == errno.EADDRINUSE:
        holder = who_listens(port)
        if holder:
            return f" by {holder}; end that, or write another port"
        return f"; write another port, or see who has it: ss -ltnp 'sport = :{port}' (as root)"
    if number == errno.EADDRNOTAVAIL:
        return "; write an address this machine has (ip -brief address), or 0.0.0.0 for all of them"
    if number == errno.EACCES:
        return "; write a port of 1024 or more, or give the process the capability CAP_NET_BIND_SERVICE"
    return ""

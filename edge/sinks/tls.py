"""TLS towards a receiver: whom to trust, and who we are when it asks."""

import ssl
from pathlib import Path
from typing import Protocol

from pipelines.errors import ConfigError


class TlsSettings(Protocol):
    @property
    def ca(self) -> Path | None: ...
    @property
    def cert(self) -> Path | None: ...
    @property
    def key(self) -> Path | None: ...


def tls_context(settings: TlsSettings | None) -> ssl.SSLContext:
    """TLS 1.2 or newer; the receiver's name is always checked. ConfigError for files that are no certificates or keys."""
    ca, cert, key = (None, None, None) if settings is None else (settings.ca, settings.cert, settings.key)
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"{ca} holds no certificate that can be trusted: {error}; give a PEM file under tls.ca"
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert is not None:
        try:
            context.load_cert_chain(cert, key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"{cert} and its key cannot be used: {error}; give PEM files that belong together under tls.cert and tls.key"
            ) from error
    return context

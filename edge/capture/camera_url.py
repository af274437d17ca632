"""The address of a camera. Its password is for the camera alone: everything people see goes through `redacted`."""

import re
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from pipelines.errors import ConfigError
from pipelines.redaction import redacted

SCHEMES = ("rtsp", "rtsps", "http", "https")
PORTS = {"rtsp": 554, "rtsps": 322, "http": 80, "https": 443}

_BEHIND_HOST = re.compile(r"^[^/]*(//)?[^/?#]*")
_HOST_LIKE = "write it like rtsp://10.0.0.7:554/stream1"


class CameraUrl(str):
    """A URL whose `repr` holds no secret, so that a configuration can be shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(redacted(self))


def camera_url(text: str) -> CameraUrl:
    """Raises ValueError, in words without the secrets, for what is no address of a camera."""
    if "@" in _BEHIND_HOST.sub("", text, count=1):
        # Most often a password with a / in it: the host would end there, and the rest be shown to everybody.
        raise ValueError(
            "has an @ behind the host; in a user or password write / as %2F, ? as %3F and # as %23, "
            "elsewhere write @ as %40"
        )
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(f"is no URL; {_HOST_LIKE}") from None
    if parts.scheme.lower() not in SCHEMES:
        raise ValueError(
            f"must begin with {', '.join(f'{s}://' for s in SCHEMES)}; for a file use kind: file, "
            "for a camera on this machine kind: usb"
        )
    if not parts.hostname or port == 0:
        raise ValueError(f"names no host; {_HOST_LIKE}")
    try:
        parts.hostname.encode("idna")
    except UnicodeError:
        raise ValueError(
            f"names a host no network can know: each part between its dots has 1 to 63 characters; {_HOST_LIKE}"
        ) from None
    if any(c.isspace() for c in text):
        raise ValueError("has a blank in it; write %20 where the camera wants one")
    return CameraUrl(text)


def with_credentials(url: str, user: str | None, password_file: Path | None) -> str:
    """The URL that is opened. The file is read now, so that a new password needs no restart.

    Raises ConfigError when the file cannot be read.
    """
    if user is None:
        return url
    secret = ""
    if password_file is not None:
        try:
            secret = password_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"cannot read the password of the camera: {error}; password_file must be text the agent's user can read"
            ) from error
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{quote(user, safe='')}:{quote(secret, safe='')}@{host}"))

"""The address of a camera. Its password is for the camera alone: everything people see goes through `redacted`."""

import re
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from pipelines.errors import ConfigError

SCHEMES = ("rtsp", "rtsps", "http", "https")
PORTS = {"rtsp": 554, "rtsps": 322, "http": 80, "https": 443}

_CREDENTIALS = re.compile(r"(?<=//)[^/?#\s]*@")
# Many cameras take them in the query: ?user=admin&pwd=secret
_SECRETS = re.compile(
    r"(?i)([?&](?:user|username|usr|login|pass|passwd|password|pwd|token|auth|key)=)[^&#\s]*"
)


class CameraUrl(str):
    """A URL whose `repr` holds no secret, so that a configuration can be shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(redacted(self))


def redacted(url: str) -> str:
    """`url` as people may see it: `rtsp://***@10.0.0.7/stream`."""
    return _SECRETS.sub(r"\1***", _CREDENTIALS.sub("***@", url))


def camera_url(text: str) -> CameraUrl:
    """Raises ValueError, in words without the secrets, for what is no address of a camera."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError("is no URL; write it like rtsp://10.0.0.7:554/stream1") from None
    if parts.scheme.lower() not in SCHEMES:
        raise ValueError(
            f"must begin with {', '.join(f'{s}://' for s in SCHEMES)}; for a file use kind: file, "
            "for a camera on this machine kind: usb"
        )
    if not parts.hostname or port == 0:
        raise ValueError("names no host; write it like rtsp://10.0.0.7:554/stream1")
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
            raise ConfigError(f"cannot read the password of the camera: {error}") from error
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{quote(user, safe='')}:{quote(secret, safe='')}@{host}"))

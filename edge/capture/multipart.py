"""Parts of a `multipart/x-mixed-replace` body, one after the other, whatever lies between them.

Nothing is kept that a part has not announced or bounded: lines, headers and parts have a largest size.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

MOST_LINE_BYTES = 65_536
MOST_HEADERS = 64
MOST_PART_BYTES = 32 * 2**20


class Bytes(Protocol):
    """A buffered body."""

    def readline(self, limit: int, /) -> bytes: ...
    def read(self, amount: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """`headers` by their names in small letters."""

    headers: Mapping[str, str]
    data: bytes


def boundary_of(content_type: str) -> bytes | None:
    """The line that begins a part; None if this is no endless multipart body."""
    kind, _, parameters = content_type.partition(";")
    if kind.strip().lower() != "multipart/x-mixed-replace":
        return None
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "boundary":
            # Some cameras write the dashes into the name, some do not.
            return b"--" + value.strip().strip('"').encode("latin-1").removeprefix(b"--")
    return b"--"


class Parts:
    """Of `body`, whose parts begin with the line `boundary`."""

    def __init__(self, body: Bytes, boundary: bytes) -> None:
        self._body = body
        self._boundary = boundary
        self._at_headers = False

    def next(self) -> Part | None:
        """The next part that is whole and not too large; None at the end. Raises what reading `body` raises."""
        while self._at_headers or self._find():
            self._at_headers = False
            headers = self._headers()
            if headers is None:
                return None
            length = headers.get("content-length", "")
            data = self._announced(int(length)) if length.isdecimal() else self._until_boundary()
            if data is None:
                return None
            if data:
                return Part(headers=headers, data=data)
        return None

    def _find(self) -> bool:
        """Skip what is there until a part begins; False at the end."""
        while line := self._body.readline(MOST_LINE_BYTES):
            if line.startswith(self._boundary):
                return True
        return False

    def _headers(self) -> Mapping[str, str] | None:
        headers: dict[str, str] = {}
        for _ in range(MOST_HEADERS):
            line = self._body.readline(MOST_LINE_BYTES)
            if not line:
                return None
            text = line.decode("latin-1").strip()
            if not text:
                return headers
            name, _, value = text.partition(":")
            headers[name.strip().lower()] = value.strip()
        return headers

    def _announced(self, length: int) -> bytes | None:
        """Empty: too large, looked for the next part instead."""
        if length > MOST_PART_BYTES:
            return b""
        data = self._body.read(length)
        return data if len(data) == length else None

    def _until_boundary(self) -> bytes | None:
        data = bytearray()
        while line := self._body.readline(MOST_LINE_BYTES):
            if line.startswith(self._boundary):
                self._at_headers = True
                return bytes(data) if len(data) <= MOST_PART_BYTES else b""
            if len(data) <= MOST_PART_BYTES:
                data += line
        return None

"""What the local model is called in answers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NearNames:
    """Model and SHA-256 of the local detector, at its full and at its smaller input; empty where there is none."""

    full: str = ""
    smaller: str = ""
    sha256: str = ""

"""How the scheduler names a frame."""

Key = tuple[str, int]
"""(stream, seq) of a frame of this run."""

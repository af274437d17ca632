"""How evenly something is shared."""

from collections.abc import Sequence


def jain(shares: Sequence[float]) -> float:
    """Jain's index (Jain, Chiu and Hawe 1984): 1 when all have the same, 1/n when one has everything, 0 of nothing."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0

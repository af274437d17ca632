"""Where record stores may be made."""

from collections.abc import Callable

NewUrl = Callable[[], str]
"""Another place at every call."""

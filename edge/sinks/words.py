"""What an error says to a person who watches a sink."""


def words_of(error: Exception) -> str:
    """Without the number that the system gives it; never empty."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text or type(error).__name__

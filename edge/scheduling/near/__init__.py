"""When near runs, for which frame, and what is kept for it."""

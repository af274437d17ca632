"""The ways to the workers: one port a link, and who is told how each link does."""

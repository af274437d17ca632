"""Decisions in virtual time: microseconds and observations come in, actions go out as values."""

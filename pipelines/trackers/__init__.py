"""Trackers: an answer of an earlier frame carried forward to a later one, where no detector answers in time."""

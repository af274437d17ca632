"""The scheduler and the worker's queue in virtual time, against recorded links. Deterministic by seed."""

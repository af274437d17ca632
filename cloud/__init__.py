"""The worker: runs the better model for many agents and keeps one record per frame."""

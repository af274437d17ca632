"""The agent: answers every frame by its deadline, near or far, and keeps what the cloud has not seen."""

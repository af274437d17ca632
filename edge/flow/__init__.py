"""The way of one frame through the agent: from its slot over decision and codec to its answer."""

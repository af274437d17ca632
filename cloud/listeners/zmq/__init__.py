"""ZeroMQ: one port for the live and the bulk lane."""

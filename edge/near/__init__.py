"""The local model: loaded, and run on a thread of its own."""

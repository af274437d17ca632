"""Picture codecs: bytes for the wire and back, limits checked before pixels are allocated."""

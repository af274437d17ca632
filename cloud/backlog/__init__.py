"""Every admitted frame between its head and its end, seen from the side that brings it and the side that does the work."""

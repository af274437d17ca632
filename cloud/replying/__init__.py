"""What becomes of a frame that is over: reply, record, acknowledgement."""

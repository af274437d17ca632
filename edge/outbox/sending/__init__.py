"""What goes up from the outbox, in which batches and how fast beside live frames."""

"""What a worker says of itself as metrics."""

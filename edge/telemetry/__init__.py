"""What a run says of itself: counts that add up, metrics, the run directory, the summary."""

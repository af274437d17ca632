"""What comes up beside live frames: bulk batches and pictures on their way to the stores."""

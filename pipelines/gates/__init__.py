"""Gates: which frames of a stream are worth an answer at all."""

"""What others take to carry the same frame and bring back its result, in one run with ours."""

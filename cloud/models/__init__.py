"""The models of a worker: how they are built, warmed up and run, and which threads they get."""

"""The report of a run: one page that says whether the promise was kept, and shows why."""

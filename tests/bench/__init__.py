"""Benchmarks anyone can run: `python -m tests.bench.NAME [--quick] --json FILE|-`."""

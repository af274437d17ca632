# make demo   the main job in one command, on a real clip and a real model
# make test   every test that needs no privileges: side by side, then those that must run alone
# make lint   format, lint, types, floors
# make lab    tests that need root, namespaces or ../shared
# make docs   rewrites the YAML reference from the schema
# make bench  benchmarks; rewrites the tables of docs/benchmarks.md
# make peers  installs what others use to carry frames, each apart, and measures us beside it
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
DEMO_ARGS ?=
SIDE_BY_SIDE ?= -n logical --maxprocesses 4 --dist worksteal
unexport PYTHONDONTWRITEBYTECODE # tests start hundreds of processes, each of which would compile all it imports

.PHONY: demo test lint lab docs bench peers clean

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "nearfar needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -c constraints.txt -e '.[demo]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo
	@$(BIN)/python -m nearfar.assets .assets
	@$(BIN)/nearfar demo --assets .assets $(DEMO_ARGS)

test: $(VENV)/.dev
	$(BIN)/pytest $(SIDE_BY_SIDE) -m "not lab and not alone"
	$(BIN)/pytest -m "alone and not lab"

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

lab: $(VENV)/.dev
	$(BIN)/pytest -m lab

docs: $(VENV)/.dev
	$(BIN)/nearfar schema pipeline --markdown >docs/pipeline.md
	$(BIN)/nearfar schema worker --markdown >docs/worker.md

bench: $(VENV)/.dev
	$(BIN)/python -m tests.bench

peers: $(VENV)/.dev
	$(BIN)/python -m tests.bench.transport --peers --install

clean:
	rm -rf $(VENV) .assets .peers build dist

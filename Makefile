# `make train` and `make test` set up .venv by themselves, once; `make bench` also builds the peers it compares with.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PEERS := .venv/.peers

.PHONY: train test format bench clean
.DELETE_ON_ERROR:

train: $(READY)
	$(BIN)/python examples/quickstart.py

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) $(PEERS)
	$(BIN)/python benchmarks/core.py

# Set-up runs again only when the versions or the package's own requirements change.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert (3, 11) <= sys.version_info < (3, 13), "CRaWl needs Python 3.11 or 3.12; call make PYTHON=/path/to/python3.11"'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

# Peers are optional: one that does not install is reported in the table as missing.
$(PEERS): $(READY) benchmarks/peers.txt
	while read -r peer; do $(BIN)/python -m pip install --no-build-isolation -c constraints.txt $$peer || true; done < benchmarks/peers.txt
	touch $@

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

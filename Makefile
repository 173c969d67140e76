# `make demo` and `make test` do everything on a machine that has Python 3.11 and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
EXTRAS := lab,alfworld,webshop,tau2,express,dense,hf,train,kernels,ray,dev
TESTS ?= tests
# Test files that run at a time; those that take longest come first.
JOBS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder
# What `make bench` plays; with ALFWorld's own games at hand: make bench SPLIT=valid_seen
SPLIT ?= generated_test

# Threads that wait for each other collapse when cores are shared: one a process in tests.
test test-%: export OMP_NUM_THREADS := 1

.PHONY: setup demo test test-unit test-benchmarks test-notebooks test-ui check bench study serve clean

setup: .venv/.ready

.venv/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "JitMem Lab needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 2; }
	@command -v cc >/dev/null && command -v c++ >/dev/null || { echo "JitMem Lab needs a C and a C++ compiler for ALFWorld's dependencies (Debian: apt-get install build-essential)"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing into .venv (about 900 MB to download with the CPU build of torch; once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[$(EXTRAS)]'
	@$(BIN)/python -m jitmem_lab.models.smol
	@touch $@

demo: setup
	@$(BIN)/jitmem demo

test: setup
	$(PYTEST) $(TESTS)

test-unit test-benchmarks test-notebooks test-ui: test-%: setup
	$(PYTEST) tests/$*

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy jitmem_lab

bench: setup
	$(BIN)/jitmem bench retrieval
	$(BIN)/jitmem bench stream
	$(BIN)/jitmem bench choose --split $(SPLIT)
	$(BIN)/jitmem bench payload --split $(SPLIT)
	$(BIN)/jitmem bench alfworld --split $(SPLIT)
	$(BIN)/jitmem bench env

# The paper's experiments in miniature, and one report; killed, it goes on. SIZE=smoke takes minutes.
SIZE ?= mini
# Runs that are played at a time.
WORKERS ?= 2
study: setup
	$(BIN)/jitmem study run --size $(SIZE) --workers $(WORKERS)

serve: setup
	$(BIN)/jitmem serve

clean:
	rm -rf .venv

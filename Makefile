# `make demo` and `make test` install what they lack and are quick the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test bench lint format clean packages test-packages

demo: $(VENV)/.installed
	$(BIN)/tnpu-nix demo .demo

test: test-packages $(VENV)/.installed-dev
	$(BIN)/pytest -n 3 --dist worksteal

# What docs/measurements.md reports: every file of benchmarks/ that compares something.
bench: test-packages $(VENV)/.installed-dev
	@for one in $$(ls benchmarks/bench_*.py); do $(BIN)/python -m benchmarks.$$(basename $$one .py); done

# Formatting, types, and the generated files against pins.toml.
lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/tnpu-nix generate --check

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

packages:
	@scripts/install-packages

test-packages:
	@scripts/install-packages tests/debian-packages.txt
	@scripts/unpack-servers

$(VENV)/.installed: pyproject.toml | packages
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

# The stores in these folders are read-only trees.
clean:
	chmod -R u+w .demo .test-cache 2>/dev/null || true
	rm -rf .demo .test-cache $(VENV) build

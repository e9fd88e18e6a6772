# One verb each: `make help` lists them. The work is done by tools/setup.py and .venv/bin.
# All targets are commands, not files; what is up to date is decided by tools/setup.py.

SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help setup up test check format generate bench lock clean FORCE

# Another interpreter: make setup PYTHON=python3.13
PYTHON ?=
# Passed on by `up`, `test` and `bench`: make up ARGS="--agent iris --detach"
ARGS ?=
# How many processes run the tests, 0 for none but pytest's own: make test WORKERS=2
WORKERS ?= auto

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-15s %s\n", $$1, $$2 }'

setup: ## set up .venv with everything that up, test and check need
	@sh tools/setup.sh dev "$(PYTHON)"

up: ## set up, then run the hive in the foreground (ARGS are those of `hivectl up`)
	@sh tools/setup.sh run "$(PYTHON)"
	@exec .venv/bin/hivectl up $(ARGS)

test: setup ## set up, then run the tests (ARGS are pytest's)
	@if command -v npm >/dev/null; then \
		.venv/bin/python -m tests.support.install_claude && .venv/bin/python -m tests.support.install_conformance; \
	else echo "test: no npm here, so the tests that drive the real Claude Code CLI or MCP's own suite are skipped"; fi
	@exec .venv/bin/pytest -n $(WORKERS) $(ARGS)

check: setup ## format, lint, types, import contracts, dependencies
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports
	@.venv/bin/deptry .

format: setup ## rewrite the sources as `check` wants them
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

generate: setup ## rewrite the pages and env examples that are made from code
	@.venv/bin/python -m tools.generated

bench: setup ## small benchmark, ratios within one run, as JSON (ARGS: --help)
	@exec .venv/bin/python -m bench $(ARGS)

lock: ## compile requirements/*.txt anew from pyproject.toml
	@sh tools/setup.sh lock "$(PYTHON)"

clean: ## remove .venv, .tools and caches; the hive's own data stays
	@rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Everything a newcomer needs: `make demo` and `make test`. Each target sets up what it misses, in
# .venv and .cache, without root; a second run finds its stamp and starts at once.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.tidemill-stamp
DEMO_SECONDS ?= 60
NAME ?= all

# where our own processes look for our packages
export PYTHONPATH := $(CURDIR)
export PYTHONUNBUFFERED := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test unit property contract cases integration chaos lint format bench constraints clean

help: ## List the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP) ## Install everything into .venv

$(STAMP): pyproject.toml constraints.txt deploy/setup.sh
	@PYTHON="$(PYTHON)" VENV="$(VENV)" STAMP="$(STAMP)" bash deploy/setup.sh

demo: setup ## Score real orders on a real stack; DEMO_SECONDS bounds it
	@$(BIN)/python -m cli.main demo --seconds $(DEMO_SECONDS)

test: setup unit property contract cases integration chaos ## Run all tests, the quick ones first

unit property contract cases integration chaos: setup
	@echo "== tests/$@"
	@$(BIN)/python -m pytest -q tests/$@

lint: setup ## Check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## Rewrite files the way lint wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## Measure; NAME=hop for one of them
	@$(BIN)/python -m bench $(NAME)

constraints: setup ## Pin what is installed now
	@{ head -n 1 constraints.txt; $(BIN)/pip freeze --exclude-editable --exclude tidemill; } > constraints.new
	@mv constraints.new constraints.txt

clean: ## End the local stack and remove what was built, downloads excepted
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m cli.main down; fi
	rm -rf run build dist ./*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Everything a person does with a checkout of Tocsin. `make help` lists it.

.DEFAULT_GOAL := help
SHELL := /bin/sh
BIN := .venv/bin

# Spark takes the Java that set-up found (its note is read when a recipe runs, not before).
WITH_JAVA = JAVA_HOME="$$(cat .venv/tocsin-java)"
# Hundreds of processes are started in tests: none of them should have to read our source again.
unexport PYTHONDONTWRITEBYTECODE
heading = @printf '\n== %s\n' '$(1)'

.PHONY: help setup classes servers demo demo-kafka test quick differential check pytest bench lint \
	format pin clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install everything into .venv; find or install Java
	@scripts/setup

# Not needed, and made beside the checks where there are any.
classes: setup
	@$(WITH_JAVA) $(BIN)/python -m tocsin.spark.class_archive 2>>.venv/tocsin-setup.log || \
		echo "Spark's classes were not kept; it will start as slowly as ever"

demo: setup classes ## a city's emergencies reach 400 subscribers (ARGS="--seconds 30 …")
	@$(WITH_JAVA) $(BIN)/tocsin demo $(ARGS)

demo-kafka: setup classes ## the same city on Kafka and PostgreSQL, installed and started for it
	@$(WITH_JAVA) $(BIN)/tocsin demo --profile company $(ARGS)

test: setup ## format, lint, types, import directions, all tests (ARGS=tests/cli …)
	@$(MAKE) --no-print-directory --jobs=3 --output-sync check servers classes
	@$(MAKE) --no-print-directory pytest

quick: setup ## the tests that need no Spark, server or process, within a minute or so (ARGS=…)
	@$(BIN)/python -m pytest -n 3 --dist loadfile -m quick $(ARGS)

differential: setup classes ## random channels beside what their queries say (ARGS="--seeds 5000")
	@cd tests && JAVA_HOME="$$(cat ../.venv/tocsin-java)" \
		../$(BIN)/python -m spark.channels.differential $(ARGS)

check: setup
	$(call heading,format (ruff format --check))
	@$(BIN)/ruff format --check .
	$(call heading,lint (ruff check))
	@$(BIN)/ruff check .
	$(call heading,types (mypy --strict))
	@$(BIN)/mypy
	$(call heading,import directions (lint-imports))
	@$(BIN)/lint-imports

# Tests whose server cannot be had are skipped and say so (with CI=true they fail): go on.
servers: setup ## install Kafka, PostgreSQL, MariaDB, S3 and nginx for tests, as far as possible
	$(call heading,servers (tocsin dev install))
	@$(WITH_JAVA) $(BIN)/tocsin dev install || true

pytest: setup
	$(call heading,tests (pytest))
	@$(WITH_JAVA) $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder $(ARGS)

bench: setup classes ## every speed claim, measured here and now
	@$(WITH_JAVA) $(BIN)/python -m bench $(ARGS)

lint: setup check ## the checks of `make test` without the tests

format: setup ## rewrite the code in the house format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

pin: setup ## write constraints.txt from what .venv has now
	@scripts/pin

clean: ## remove .venv, caches and what the demo left
	@rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache \
		build dist spark-warehouse metastore_db derby.log src/*.egg-info
	@find src tests bench scripts -name __pycache__ -type d -prune -exec rm -rf {} +

# make demo and make test install everything they need (given Python 3.11+ and Java 17+); the second time they start at once.
PYTHON ?= python3
SPARK ?= 4.1.4
BIN := .venv/bin
STAMP := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-store test-lake published fast check bench dist docs docs-serve notebooks figures screenshots format clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 13

setup: $(STAMP)  ## Install bigjoin and its tools into .venv

demo: $(STAMP)  ## Count the paper's five queries on the bundled graph
	$(BIN)/bigjoin demo

test: $(STAMP) check  ## Check and test everything
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow and not lake" --durations 25

test-store: $(STAMP)  ## Test with real stores: an S3 server, HDFS, and workers that share nothing else (the first time takes minutes)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --group store
	$(BIN)/pytest -m store --durations 10

published: $(STAMP)  ## Compare with every published count, including those that take minutes
	$(BIN)/pytest tests/test_published.py

fast: $(STAMP)  ## Run the tests that need no Spark
	$(BIN)/pytest -n 2 --dist loadfile -m "not spark and not slow"

test-lake:  ## Read and write tables of Delta, Iceberg, Hive and databases, with a Spark that they support (SPARK=4.0.5: another)
	$(PYTHON) -m venv .venv-lake
	.venv-lake/bin/pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	grep -v '^pyspark==' constraints.txt > .venv-lake/constraints.txt
	.venv-lake/bin/pip install --quiet --disable-pip-version-check -c .venv-lake/constraints.txt "pyspark==$(SPARK)" duckdb pytest -e .
	BIGJOIN_LAKE_SPARK=$(SPARK) .venv-lake/bin/pytest -m lake tests/test_lake.py

check: $(STAMP)  ## Lint, check types, import contracts, spelling and the Dockerfile
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/hadolint Dockerfile

bench: $(STAMP)  ## Measure this engine and its peers, and write docs/benchmarks.md (SUITES="--quick": three minutes)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --group bench
	$(BIN)/bigjoin bench $(SUITES)

docs: $(STAMP)  ## Build the documentation site into site/, and stop at a broken link
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(STAMP)  ## Show the site at 127.0.0.1:8000, and renew it while pages are written
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --dev-addr 127.0.0.1:8000

notebooks: $(STAMP)  ## Run the notebooks of the documentation again, and keep what they print
	$(BIN)/python scripts/notebooks.py

figures: $(STAMP)  ## Draw the diagrams of the documentation again
	$(BIN)/python scripts/figures.py
	$(BIN)/python scripts/drawings.py

screenshots: $(STAMP)  ## Take the screenshots of the documentation again (needs Chromium and tmux)
	$(BIN)/python scripts/screenshots.py

dist: $(STAMP)  ## Build the wheel and the sdist into dist/, and try both in new environments
	rm -rf dist
	$(BIN)/python -m build
	BIGJOIN_DIST=dist $(BIN)/pytest tests/test_distribution.py

format: $(STAMP)  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Remove everything installed or cached here
	rm -rf .venv .venv-lake .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "bigjoin needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --group dev -e ".[connect]"
	@$(BIN)/python -P -m bigjoin.spark.class_archive || true # with it, Spark starts sooner
	@touch $(STAMP)

# Every target sets up its own environment in .venv; nothing has to be installed by hand.
PYTHON ?= python3
BIN := .venv/bin
PIP := -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Real data sets, when they stand beside the project; tests that need them are skipped when they are absent.
ifneq ($(wildcard ../shared/data/README.md),)
export CROWDWISE_DATA ?= $(abspath ../shared/data)
endif
# One thread per process: two test processes on two cores are faster than four threads.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: help setup demo test tests smoke test-slow test-lowest lint generate notebooks docs release browser java clean
.DEFAULT_GOAL := help

help:               ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/	/' | expand -t 14

setup: .venv/ready  ## Create .venv with every extra and the development tools

.venv/ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) --upgrade pip
	$(BIN)/python $(PIP) -e '.[all,dev]'
	touch $@

demo: setup         ## Run the full pipeline on built-in data
	$(BIN)/crowdwise demo

test: lint tests    ## Check style and types, run all tests and doctests

tests: setup browser java
	$(BIN)/python -m pip check
	$(PYTEST)

smoke: setup        ## Run the core of every package, in less than 30 seconds
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/test_smoke.py

test-slow: setup java  ## Run the tests that take a minute or measure the machine
	$(PYTEST) -m slow

lint: setup         ## Check style (ruff), types (mypy) and generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m scripts.generate --check

generate: setup     ## Rewrite what follows from the registry: stub, navigation, lists, reference
	$(BIN)/python -m scripts.generate

notebooks: setup    ## Execute the notebooks of examples/ and store their outputs
	$(BIN)/python -m scripts.notebooks

docs: setup         ## Build the documentation site in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

release: setup docs ## Build the wheel and the sdist, and try the wheel alone, with the demo
	$(BIN)/python -m scripts.check_release --demo

# Tests with the oldest versions of the dependencies that pyproject.toml allows (except torch). Spark, the browser, the
# site and most network training are left to `tests`.
LOWEST ?= tests/answers tests/io tests/evaluate tests/truth tests/datasets tests/compat tests/simulate \
	tests/augment/iced/test_neighbours.py tests/run/test_pipeline.py tests/project/test_lowest.py \
	tests/plots tests/learn/features tests/learn/joint_em/test_gaussian.py tests/learn/joint_em/test_pooling.py \
	tests/learn/joint_em/test_views.py tests/learn/methods/test_raykar.py tests/learn/methods/test_crowdlab.py \
	--ignore tests/io/test_fuzzing.py --ignore tests/learn/features/test_encoders.py
test-lowest: .venv-lowest/ready  ## Run the core tests with the oldest supported dependencies
	.venv-lowest/bin/python -m pip check
	CROWDWISE_LOWEST=1 NUMBA_CACHE_DIR=$(abspath .venv-lowest/numba) OMP_NUM_THREADS=1 \
	  .venv-lowest/bin/python -m pytest -n 2 --dist worksteal $(LOWEST)

.venv-lowest/ready: pyproject.toml constraints.txt scripts/lowest_versions.py
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python scripts/lowest_versions.py > .venv-lowest/constraints.txt
	.venv-lowest/bin/python $(PIP) -c .venv-lowest/constraints.txt -e '.[pandas,polars,torch,report,test]'
	touch $@

# Tests that need Chromium or Java are skipped with a message when these cannot be installed.
APT := test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends
browser: | java
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { $(APT) chromium >/dev/null; } || echo "Chromium is missing: browser tests are skipped."
java:
	@command -v java >/dev/null || test -n "$$JAVA_HOME" || { $(APT) openjdk-17-jre-headless >/dev/null; } || echo "Java is missing: Spark tests are skipped."

clean:              ## Remove environments and caches
	rm -rf .venv .venv-* .pytest_cache .mypy_cache .ruff_cache site

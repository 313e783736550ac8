# `make demo` and `make test` each set up their own .venv; nothing has to be installed by hand.
PYTHON ?= python3
BIN := .venv/bin
# Real data sets, when they stand beside the project; tests that need them say so when they do not.
ifneq ($(wildcard ../shared/data/README.md),)
export CROWDWISE_DATA ?= $(abspath ../shared/data)
endif

.PHONY: setup demo test browser java lint docs bench bench-calibration bench-truth bench-accuracy bench-learn bench-learn-accuracy bench-papers results-page \
	bench-choose bench-acquire bench-simulated bench-systems-scale bench-scale bench-spark bench-parallel bench-fuzz clean

setup: .venv/ready            ## a .venv with every extra and the dev tools

.venv/ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	touch $@

demo: setup                   ## the main job on embedded data
	$(BIN)/crowdwise demo

# One thread for each process: four on two cores spend most of their time waiting for one another. Each begins with a
# half of its own, so that what the tests of a file share (a session of Spark, say) is made once, and helps the other in
# the end.
test: setup browser java lint ## lint, types, tests and doctests
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

# The report is tested in Chromium; where it is not there and cannot be installed, these tests say that they were skipped.
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	  && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	  || echo "Chromium is not installed: the report will not be tested in a browser."

# Spark runs on Java; where it is not there and cannot be installed, these tests say that they were skipped.
java:
	@command -v java >/dev/null || test -n "$$JAVA_HOME" || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	  && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless >/dev/null; } \
	  || echo "Java is not installed: the Spark engine will not be tested."

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: bench-accuracy bench-truth bench-learn-accuracy bench-learn bench-papers bench-choose \
	bench-acquire bench-simulated bench-systems-scale bench-calibration bench-scale bench-spark bench-parallel

bench-truth: setup .venv-peers/ready    ## speed and memory beside the peers; ARGS=--huge adds 10^8 answers
	$(BIN)/python benchmarks/truth_speed.py $(ARGS)

bench-accuracy: setup         ## truth methods against the known truth of real data sets
	$(BIN)/python benchmarks/truth_accuracy.py $(ARGS)

bench-learn: setup .venv-peers/ready    ## seconds an epoch beside the bare network and the peers; ARGS=--quick
	$(BIN)/python benchmarks/learn_speed.py $(ARGS)

bench-learn-accuracy: setup   ## every learner on LabelMe and Music, five seeds, beside the vote and the ceiling
	$(BIN)/python benchmarks/learn_accuracy.py $(ARGS)

bench-papers: setup           ## the five papers' tables and figures beside what they print; ARGS=dasc-table2 for one
	$(BIN)/crowdwise bench $(or $(ARGS),all) --out benchmarks/results/papers
	$(BIN)/python benchmarks/results_page.py

bench-calibration: setup      ## how sure labels are against how often they are right, before and after calibration
	$(BIN)/python benchmarks/calibration.py $(ARGS)

docs: setup                   ## the site, in site/
	$(BIN)/python docs/cli_page.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

results-page: setup           ## docs/results.md from the saved results; ARGS=--check only says whether it is up to date
	$(BIN)/python benchmarks/results_page.py $(ARGS)

bench-choose: setup           ## how well choosing without ground truth agrees with test accuracy
	$(BIN)/python benchmarks/choose_agreement.py $(ARGS)

bench-acquire: setup          ## accuracy against answers bought, strategies side by side, on real answers
	$(BIN)/python benchmarks/acquire_replay.py $(ARGS)

bench-simulated: setup        ## self-training, made-up tasks and ambiguity on simulated crowds of known truth
	$(BIN)/python benchmarks/systems_simulated.py $(ARGS)

bench-systems-scale: setup    ## time and memory of self-training and of buying answers on large crowds
	$(BIN)/python benchmarks/systems_scale.py

bench-scale: setup .venv-peers/ready    ## 10^6 to 10^8 answers from Parquet to labels; ARGS=--quick stays at 10^6
	$(BIN)/python benchmarks/scale.py $(ARGS)

bench-spark: setup            ## what Spark costs an iteration beside the kernels; ARGS="--sizes 1e6"
	$(BIN)/python benchmarks/spark_overhead.py --json benchmarks/results/spark.json $(ARGS)

bench-parallel: setup         ## an epoch of training in one process and in two
	$(BIN)/python benchmarks/parallel_speed.py $(ARGS)

bench-fuzz: setup .venv-fuzz/ready      ## a million files, whole, damaged and hostile, through every reader; ARGS="--cases 5000"
	.venv-fuzz/bin/python benchmarks/fuzzing_guided.py
	$(BIN)/python benchmarks/fuzzing.py $(ARGS)
	$(BIN)/python benchmarks/hostile_line.py

.venv-fuzz/ready: benchmarks/fuzz.txt pyproject.toml constraints.txt
	test -x .venv-fuzz/bin/python || $(PYTHON) -m venv .venv-fuzz
	.venv-fuzz/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	.venv-fuzz/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r benchmarks/fuzz.txt -e '.[pandas,polars]'
	touch $@

# Peers have needs that clash with ours: they get an environment of their own.
.venv-peers/ready: benchmarks/peers.txt constraints.txt
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r benchmarks/peers.txt
	touch $@

clean:
	rm -rf .venv .venv-peers .venv-fuzz .pytest_cache .mypy_cache .ruff_cache

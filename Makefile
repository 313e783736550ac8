# `make demo` and `make test` set up a .venv; nothing has to be installed by hand.
PYTHON ?= python3
BIN := .venv/bin
# Real data sets, when they stand beside the project; tests that need them say so when they do not.
ifneq ($(wildcard ../shared/data/README.md),)
export CROWDWISE_DATA ?= $(abspath ../shared/data)
endif

.PHONY: setup setup-lowest demo test tests test-slow test-lowest licences browser java lint docs bench bench-calibration bench-truth bench-accuracy bench-learn bench-learn-accuracy bench-papers bench-joint results-page \
	bench-choose bench-choose-criteria bench-acquire bench-simulated bench-joint-top bench-joint-scale bench-joint-crowds bench-systems-scale bench-scale bench-spark bench-parallel bench-kill \
	bench-fuzz bench-damage bench-statistics bench-leaks clean

setup: .venv/ready            ## a .venv with every extra and the dev tools

.venv/ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	touch $@

demo: setup                   ## the main job on embedded data
	$(BIN)/crowdwise demo

test: lint tests              ## lint, types, tests and doctests

# One thread for each process: four on two cores spend most of their time waiting for one another. Each begins with a
# half of its own, so that what the tests of a file share (a session of Spark, say) is made once, and helps the other in
# the end.
PYTEST := pytest -n 2 --dist worksteal
tests: setup browser java
	$(BIN)/python -m pip check
	OMP_NUM_THREADS=1 $(BIN)/$(PYTEST)

# The same where every dependency is the oldest that pyproject.toml allows (but torch: tests/lowest.py). Left to `tests`
# are Spark, the browser, the site, and most of what trains networks; LOWEST="tests src" runs that too.
LEARN := raykar gaussian pooling views logistic crowdlab aggregated features features_files
LOWEST ?= $(addprefix tests/,answers io evaluate truth datasets compat augment/test_iced_neighbours.py run/test_job.py \
	test_lowest.py test_saving.py test_simulate.py test_cli.py $(LEARN:%=learn/test_%.py) \
	learn/test_generic_learners.py::test_scikit_learn_takes_it) --deselect tests/test_cli.py::test_demo --ignore tests/io/test_fuzzing.py
test-slow: setup java         ## tests of a minute or so each: clusters and processes that die
	OMP_NUM_THREADS=1 $(BIN)/$(PYTEST) -m slow

test-lowest: setup-lowest     ## tests with the oldest versions allowed of numpy, scipy, scikit-learn, pandas, ...
	.venv-lowest/bin/python -m pip check
	CROWDWISE_LOWEST=1 NUMBA_CACHE_DIR=$(abspath .venv-lowest/numba) OMP_NUM_THREADS=1 .venv-lowest/bin/$(PYTEST) $(LOWEST)

setup-lowest: .venv-lowest/ready

.venv-lowest/ready: pyproject.toml constraints.txt tests/lowest.py
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python tests/lowest.py > .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -c .venv-lowest/constraints.txt \
	  -e '.[pandas,polars,torch,report,test]'
	touch $@

# The report is tested in Chromium; where it is not there and cannot be installed, these tests say that they were skipped.
browser: | java               # one apt-get at a time
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

bench: bench-accuracy bench-truth bench-learn-accuracy bench-learn bench-papers bench-joint bench-joint-top bench-choose \
	bench-choose-criteria \
	bench-acquire bench-simulated bench-joint-scale bench-joint-crowds bench-systems-scale bench-calibration bench-scale bench-spark bench-parallel \
	bench-kill bench-fuzz bench-damage bench-statistics bench-leaks

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

bench-joint: setup            ## our own method beside all others, as benchmarks/notes/joint_protocol.md says: hours
	$(BIN)/crowdwise bench joint joint-sparsity joint-fresh joint-valid --seeds 10 --out benchmarks/results/papers
	$(BIN)/python benchmarks/results_page.py

bench-calibration: setup      ## how sure labels are against how often they are right, before and after calibration
	$(BIN)/python benchmarks/calibration.py $(ARGS)

docs: setup                   ## the site, in site/
	$(BIN)/python docs/cli_page.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

licences: setup               ## docs/licences.md from what is installed
	$(BIN)/python docs/licences_page.py

results-page: setup           ## docs/results.md from the saved results; ARGS=--check only says whether it is up to date
	$(BIN)/python benchmarks/results_page.py $(ARGS)

bench-choose-criteria: setup  ## which criterion chooses best without ground truth
	$(BIN)/python benchmarks/choose_criteria.py $(ARGS)

bench-choose: setup           ## how well choosing without ground truth agrees with test accuracy
	$(BIN)/python benchmarks/choose_agreement.py $(ARGS)

bench-acquire: setup          ## accuracy against answers bought, strategies side by side, on real answers
	$(BIN)/python benchmarks/acquire_replay.py $(ARGS)

bench-simulated: setup        ## self-training, made-up tasks and ambiguity on simulated crowds of known truth
	$(BIN)/python benchmarks/systems_simulated.py $(ARGS)

bench-joint-top: setup        ## the other systems on top of JointEM, beside plain JointEM; ARGS="--groups dasc music"
	$(BIN)/python benchmarks/joint_on_top.py $(ARGS)

bench-joint-scale: setup      ## time and memory of JointEM on 10,000 to 100,000 tasks of 512 features
	$(BIN)/python benchmarks/joint_scale.py $(ARGS)

bench-joint-crowds: setup     ## where JointEM fails: simulated crowds over small sets, beside Raykar and the vote
	$(BIN)/python benchmarks/joint_crowds.py $(ARGS)

bench-systems-scale: setup    ## time and memory of self-training and of buying answers on large crowds
	$(BIN)/python benchmarks/systems_scale.py

bench-scale: setup .venv-peers/ready    ## 10^6 to 10^8 answers from Parquet to labels; ARGS=--quick stays at 10^6
	$(BIN)/python benchmarks/scale.py $(ARGS)

bench-spark: setup            ## what Spark costs an iteration beside the kernels; ARGS="--sizes 1e6"
	$(BIN)/python benchmarks/spark_overhead.py --json benchmarks/results/spark.json $(ARGS)

bench-parallel: setup         ## an epoch of training in one process and in two
	$(BIN)/python benchmarks/parallel_speed.py $(ARGS)

bench-kill: setup             ## five commands killed at 100 random moments each come to the same results; ARGS="fit --kills 20"
	$(BIN)/python benchmarks/killing.py $(ARGS)

bench-statistics: setup       ## are probabilities and intervals what they say, on data drawn from the models; ARGS=--quick
	$(BIN)/python benchmarks/statistical_checks.py $(ARGS)

bench-damage: setup           ## damaged and forged models of every kind are refused, or are the same; ARGS="--damaged 400 --forged 150"
	$(BIN)/python benchmarks/damaged_files.py $(ARGS)

bench-leaks: setup            ## memory, files and threads over 1,000 fits of every method; ARGS="--calls 100"
	$(BIN)/python benchmarks/leaks.py $(ARGS)

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
	rm -rf .venv .venv-peers .venv-lowest .venv-fuzz .pytest_cache .mypy_cache .ruff_cache

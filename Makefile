# Each target sets itself up: a virtual environment in .venv with the pinned packages.
# The first of these names that runs and suits; pyenv puts names on the PATH that do not run.
SUITS := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	if "$$python" -c '$(SUITS)' >/dev/null 2>&1; then echo "$$python"; break; fi; done)
MISSING := no Python 3.11 or newer with venv and ensurepip among python3.11, python3.12, python3.13 \
	and python3; install one, or say make PYTHON=its-path
BIN := .venv/bin
RESULTS ?= results/synthetic
# One worker a core, whole files to each: tests of one file share what they compile. Files go in the
# order of tests/conftest.py, which has the longest first.
PARALLEL ?= --numprocesses=auto --dist=loadfile --no-loadscope-reorder
SLOWEST ?= --durations=30 --durations-min=5

.PHONY: run figures test test-all lint bench format lock clean

.venv/ready: requirements.lock pyproject.toml
	$(or $(PYTHON),$(error $(MISSING))) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

run: .venv/ready  ## the synthetic experiment: table and picture
	$(BIN)/python -m launch.run --config=configs/synthetic.py --workdir=$(RESULTS)

figures: .venv/ready  ## all figures and tables of the docs, to results/figures
	$(BIN)/python -m launch.figures $(FIGURES)

test: lint  ## lint and all tests but the long studies
	$(BIN)/python -m pytest $(PARALLEL) $(SLOWEST) -m "not slow"

test-all: lint  ## everything
	$(BIN)/python -m pytest $(PARALLEL)

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/ready  ## all timings, each beside a named peer; one that fails does not stop the others
	-$(BIN)/python -m benchmarks.picks
	-$(BIN)/python -m benchmarks.picks --ratings --rows=100 --columns=1000 --repeats=3
	-$(BIN)/python -m benchmarks.svi
	-$(BIN)/python -m benchmarks.parts
	-$(BIN)/python -m benchmarks.completion
	-$(BIN)/python -m benchmarks.histograms
	-$(BIN)/python -m benchmarks.variance_ids
	-$(BIN)/python -m benchmarks.particles
	-$(BIN)/python -m benchmarks.sweep
	-$(BIN)/python -m benchmarks.sweep --widths=1,8 --seeds=8
	-$(BIN)/python -m benchmarks.sweep --shard=columns --seeds=1 --rows=1000 --columns=6040 --steps=100
	-$(BIN)/python -m benchmarks.compile
	-$(BIN)/python -m benchmarks.scaling

lock: .venv/ready  ## resolve requirements.lock anew
	$(BIN)/python -m pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --strip-extras --allow-unsafe --no-header --no-annotate \
		--extra=launch --extra=lint --extra=notebooks --extra=parquet --extra=test \
		--generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
		--output-file=requirements.lock pyproject.toml

clean:
	rm -rf .venv .cache .pytest_cache .ruff_cache .mypy_cache *.egg-info

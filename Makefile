# Each target sets itself up: a virtual environment in .venv with the pinned packages.
PYTHON ?= python3.11
BIN := .venv/bin
RESULTS ?= results/synthetic
# One worker a core, whole files to each: tests of one file share what they compile.
PARALLEL ?= --numprocesses=auto --dist=loadfile

.PHONY: run test test-all lint bench format lock clean

.venv/ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

run: .venv/ready  ## the synthetic experiment on a few seeds: table and picture
	$(BIN)/python -m launch.run --config=configs/synthetic.py --workdir=$(RESULTS) --config.seeds=4

test: lint  ## lint and all tests but the long studies
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow"

test-all: lint  ## everything
	$(BIN)/python -m pytest $(PARALLEL)

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/ready  ## time of one pick of each policy, of SVI beside NumPyro's and OptSpace beside gemelli's
	$(BIN)/python -m benchmarks.picks
	$(BIN)/python -m benchmarks.svi
	$(BIN)/python -m benchmarks.completion

lock: .venv/ready  ## resolve requirements.lock anew
	$(BIN)/python -m pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --strip-extras --all-extras --allow-unsafe --no-header --no-annotate \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
		--output-file=requirements.lock pyproject.toml

clean:
	rm -rf .venv .cache .pytest_cache .ruff_cache .mypy_cache *.egg-info

# Every target makes the environment it needs; a second run starts at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK := requirements.lock
# The real data sets, where a copy lies beside the checkout; otherwise the user's cache.
# One thread a process: two test workers share two cores, and small products gain nothing from more.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export SPOM_DATA ?= $(if $(wildcard ../shared/data),$(abspath ../shared/data),)

.PHONY: demo test check bench docs lock clean mutate journeys faults fuzz wheel reproductions

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# $(call install,extras) installs the project with the given extras at the locked versions.
define install
	$(BIN)/python -m pip install --quiet --constraint $(LOCK) --editable ".$(if $(1),[$(1)])"
	@touch $@
endef

$(VENV)/.demo: pyproject.toml $(LOCK) | $(BIN)/python
	$(call install,report)
$(VENV)/.test: pyproject.toml $(LOCK) | $(BIN)/python
	$(call install,test)
$(VENV)/.bench: pyproject.toml $(LOCK) | $(BIN)/python
	$(call install,bench)
# adelie needs numpy 1, which cannot stand beside ours: an environment of its own, from which benchmarks call it.
$(VENV)-adelie/.made:
	$(PYTHON) -m venv $(VENV)-adelie
	$(VENV)-adelie/bin/pip install --quiet "adelie==1.1.52" "numpy<2"
	@touch $@
$(VENV)/.docs: pyproject.toml $(LOCK) | $(BIN)/python
	$(call install,docs)

demo: $(VENV)/.demo
	$(BIN)/spom demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2

check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Kills, stops and fills the disk of real training runs, and resumes them: 100 trials for each of six settings. Then sixteen
# threads predict for a minute.
faults: $(VENV)/.test
	$(BIN)/python -m tests.faults.kills $(or $(TRIALS),100)
	$(BIN)/python -m tests.faults.threads 60

# Mutated inputs for readers, model files, checkpoints and states, with checks of bounds in compiled code.
fuzz: $(VENV)/.test
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(VENV)/fuzz $(BIN)/python -m tests.fuzz.fuzz $(or $(INPUTS),1000000)

# A wheel with compiled kernels, and a new environment in which it is tried: its first fit compiles nothing.
wheel: $(VENV)/.test
	$(BIN)/python tools/wheel.py --out dist
	$(BIN)/python tools/try_wheel.py dist

bench: $(VENV)/.bench $(VENV)-adelie/.made
	SPOM_ADELIE=$(VENV)-adelie/bin/python $(BIN)/python -m benchmarks

# Runs again the papers' experiments whose stored results are not what the code gives any more; ARGS=--all runs all.
reproductions: $(VENV)/.bench
	$(BIN)/python tools/reproductions.py $(ARGS)

# Builds the pages; then runs the code of every page and the commands of the tasks and of the pages for users of other tools, and
# looks at the pages in a browser, where there is one.
docs: $(VENV)/.docs $(VENV)/.test
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html
	$(BIN)/python -m pytest -q -n 2 tests/docs

# Pins what a fresh environment with every extra resolves to: names and versions only.
lock:
	rm -rf $(VENV)-lock && $(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip install --quiet --editable ".[zstd,dask,report,test,bench,docs]"
	$(VENV)-lock/bin/pip freeze --exclude-editable > $(LOCK)
	rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) $(VENV)-adelie dist docs/_build docs/auto_examples docs/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Changes single lines of compiled loops and prints what no test noticed; MUTATE="--sample 10 --paths src/spom/solvers/mkl" narrows it.
mutate: $(VENV)/.test
	$(BIN)/python tools/mutate.py $(MUTATE)

journeys: $(VENV)/.test
	$(BIN)/python tools/journeys.py

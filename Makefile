# Every target sets up what it needs: a virtual environment in .venv with the pinned dependencies.
PYTHON ?= python3.11
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
JOBS   ?= 2
# What `make run` computes: small forms of four studies, then the comparison of VI methods. `make run RUN=all`
# computes every experiment.
RUN    ?= short-gradients short-minibatches short-quadrature short-vbmc \
          vi-methods cavi-iterates gd-schedules sgd-batch-sizes sngd-batch-sizes sngd-against-sgd \
          pathwise-samples iwae-samples domain real-data multinomial-digits

# One thread a process: the processes share the cores among themselves.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1

# Compiled modules are kept: the processes that tests and experiments start would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-peers lint bench docs docs-check lock clean

run: $(READY)        ## four studies in short and the comparison of VI methods, then the report page
	$(BIN)/bqvi run $(RUN) --jobs $(JOBS)
	$(BIN)/bqvi report --jobs $(JOBS)

test: $(READY)       ## the whole test suite
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-peers: $(READY)  ## hidden Markov models beside hmmlearn's values
	$(BIN)/pip install -q -c constraints.txt hmmlearn
	$(BIN)/python -m pytest tests/models/test_hidden_markov_model_peer.py

lint: $(READY)       ## format check, linter, type checker
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(READY)      ## speed and memory figures, paired with the peers
	$(BIN)/pip install -q -c constraints.txt --group peers
	$(BIN)/python -m benchmarks

docs: $(READY)       ## the site, its notebooks executed; warnings are errors
	$(BIN)/pip install -q -c constraints.txt -e ".[experiments,sklearn]" --group docs
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html

docs-check: docs     ## every page of the site in a Chromium, at two widths: layout, search, accessibility
	$(BIN)/pip install -q -c constraints.txt --group docs-check
	$(BIN)/python docs/check_in_browser.py

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || python3 -m venv $(VENV)
	$(BIN)/pip install -q "pip>=25.1"  # the first with --group
	$(BIN)/pip install -q -c constraints.txt -e ".[arviz,experiments]" --group dev
	touch $@

# The pinned versions with checksums, for `uv pip sync requirements.lock`.
lock:
	$(PYTHON) -m uv pip compile -q pyproject.toml --extra experiments --extra arviz --group dev -c constraints.txt \
	  --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --no-annotate --no-header -o requirements.lock

clean:
	rm -rf $(VENV) results docs/_build docs/api docs/gallery

# Two commands: `make lab` starts the lab, `make test` proves it. Both do all their own set-up in .venv.
# Also `make bench` (measured ratios, never a test), `make slow` (minutes), `make release` (exercises from solutions).

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
UV     := $(shell command -v uv 2>/dev/null)

.PHONY: lab test fast browser slow bench release lint clean

lab: $(READY)
	$(BIN)/python -m ctxlab lab

test: lint fast browser

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fast: $(READY)
	$(BIN)/python -m pytest -m "not browser and not slow" -n 2 --dist worksteal

browser: $(READY)
	$(BIN)/python -m pytest -m "browser and not slow"

slow: $(READY)
	HYPOTHESIS_PROFILE=deep $(BIN)/python -m pytest --timeout 1800

bench: $(READY)
	@for script in benchmarks/[a-z]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

release: $(READY)
	$(BIN)/python -m ctxlab release

# uv where it is installed, else pip. The stamp is younger than pyproject.toml when the environment is complete.
$(READY): pyproject.toml
ifeq ($(UV),)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
else
	$(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
	$(UV) pip install --quiet --python $(BIN)/python --editable '.[dev]'
endif
	touch $(READY)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

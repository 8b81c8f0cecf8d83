# Two commands: `make lab` starts the lab, `make test` proves it. Both do all their own set-up in .venv.
# Also `make bench` (measured ratios, never a test), `make slow` (minutes), `make release` (exercises from solutions).

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
LAB    := $(VENV)/.ready-lab
UV     := $(shell command -v uv 2>/dev/null)

.PHONY: lab test fast browser slow bench release lint clean

lab: $(LAB)
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

# uv where it is installed, else pip. A stamp is younger than pyproject.toml when its part is complete. The lab needs
# less than the tests, so a learner does not wait for what only developers use.
define install
	@echo "setting up $(VENV) with '$(1)'; this takes a few minutes the first time"
	$(if $(UV),$(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV),$(PYTHON) -m venv $(VENV))
	$(if $(UV),,$(BIN)/python -m pip install --quiet --upgrade pip)
	$(if $(UV),$(UV) pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet) --editable '$(1)'
endef

$(READY): pyproject.toml
	$(call install,.[dev])
	touch $(READY) $(LAB)

$(LAB): pyproject.toml
	$(call install,.[lab])
	touch $(LAB)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

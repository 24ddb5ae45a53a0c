# Every target works from a fresh clone with Python 3.11 or newer, git and make:
# no system Node, no pre-installed pdm. See scripts/setup.py.

PYTHON ?= python3
PYTEST_ARGS ?=
# One more than there are processors: tests wait more than they compute.
PYTEST_JOBS ?= $(shell echo $$(($$(nproc 2>/dev/null || echo 2) + 1)))
BENCH_ARGS ?=
FUZZ ?= 20
MINUTES ?= 10
RUNS ?=
SOAK_ARGS ?=
ONLY ?=
JOBS ?= 2
VITEST_ARGS ?=
RELEASE_ARGS ?=

# Nothing of another environment leaks in; the commands of this checkout come first. Only recipes
# that run after the set-up see that PATH: $(PYTHON) must not become the environment that it makes.
unexport PYTHONPATH PYTHONHOME NODE_OPTIONS NODE_PATH CODE_RUNTIME_NODE
WITH_TOOLS := PATH="$(CURDIR)/.setup/bin:$(CURDIR)/.venv/bin:$$PATH" VIRTUAL_ENV="$(CURDIR)/.venv"
BIN := .venv/bin

.NOTPARALLEL:
.PHONY: help setup demo test check fmt build corpora fuzz soak mutants bench bench-peers bench-compare docs \
	release-check clean

help:
	@echo "make demo    set up and run the example programs"
	@echo "make test    set up and run every test of both languages (PYTEST_ARGS=… VITEST_ARGS=…)"
	@echo "make check   set up and run linters and type checkers"
	@echo "make fmt     format both languages and fix what can be fixed"
	@echo "make build   wheels and sdists in dist/"
	@echo "make corpora every program of HumanEval and test262, on every way to run it"
	@echo "make fuzz    the fuzz tests at random, FUZZ=20 times as long as in make test"
	@echo "make soak    programs of all kinds for MINUTES=10 for each provider: nothing may grow"
	@echo "make mutants change what decides on validity, and see that tests notice (ONLY=names,…)"
	@echo "make bench   what a run, a call, a value and a line cost (BENCH_ARGS=…); also bench-peers"
	@echo "             beside other runtimes, bench-compare BASE=<commit> against another commit"
	@echo "make docs    the documentation site, in site/"
	@echo "make release-check  build every package and try it in a clean environment"
	@echo "make setup   only set up; make clean undoes it"

setup:
	@$(PYTHON) scripts/setup.py

demo: setup
	$(BIN)/code-runtime run examples/analysis.ts --bindings examples/weather.py --calls
	$(BIN)/code-runtime run examples/recovery.ts --bindings examples/weather.py --calls
	$(BIN)/code-runtime run examples/rain.py --bindings examples/weather.py --calls
	$(BIN)/python examples/embed.py
	$(BIN)/python examples/agent_loop.py
	$(WITH_TOOLS) code-mode call --config examples/servers.json examples/code_mode.ts

# Both runners go to their closing lines; either one failing fails the target.
test: setup
	@export $(WITH_TOOLS); code=0; \
	pytest -n $(PYTEST_JOBS) --maxprocesses 4 --dist worksteal $(PYTEST_ARGS) || code=1; \
	npm run --silent test --workspaces --if-present -- $(VITEST_ARGS) || code=1; \
	exit $$code

check: setup
	@$(WITH_TOOLS) $(BIN)/python scripts/check.py

fmt: setup
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix --quiet
	@$(WITH_TOOLS) npm run --silent fmt

build: setup
	@rm -rf dist
	@for package in packages/*/pyproject.toml; do \
		$(BIN)/pyproject-build --no-isolation --outdir dist "$$(dirname "$$package")" || exit 1; \
	done

corpora: setup
	@$(WITH_TOOLS) CODE_RUNTIME_CORPORA=all pytest tests/corpora $(PYTEST_ARGS)

fuzz: setup
	@export $(WITH_TOOLS) CODE_RUNTIME_FUZZ_FACTOR=$(FUZZ); code=0; \
	pytest tests/fuzz $(PYTEST_ARGS) || code=1; \
	npm run --silent test --workspaces --if-present -- fuzz $(VITEST_ARGS) || code=1; \
	exit $$code

soak: setup
	@$(WITH_TOOLS) $(BIN)/python -W error tests/soak/soak.py \
		$(if $(RUNS),--runs $(RUNS),--minutes $(MINUTES)) $(SOAK_ARGS)

mutants: setup
	@$(WITH_TOOLS) $(BIN)/python -m scripts.mutants --only "$(ONLY)" --jobs $(JOBS)

bench: setup
	@$(WITH_TOOLS) $(BIN)/python -m bench $(BENCH_ARGS)

bench-peers: setup
	@$(WITH_TOOLS) $(BIN)/python -m bench.peers.install
	@$(WITH_TOOLS) $(BIN)/python -m bench --peer all $(BENCH_ARGS)

bench-compare: setup
	@$(WITH_TOOLS) $(BIN)/python -m bench.compare $(BASE) $(BENCH_ARGS)

docs: setup
	@$(WITH_TOOLS) $(BIN)/python scripts/docs.py

release-check: setup
	@$(WITH_TOOLS) $(BIN)/python scripts/release_check.py $(RELEASE_ARGS)

clean:
	@$(PYTHON) scripts/setup.py --clean

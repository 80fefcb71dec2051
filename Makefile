# `make demo` and `make test` set up everything that they need on a fresh machine.
# Needed beforehand: a Rust toolchain (1.95 or newer), a C compiler, Python 3.10 or newer, git; the tests
# also need Go 1.26 or newer, Node 20 or newer with npm, and tmux.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
CARGO ?= cargo
GO ?= go
TARGET := $(CURDIR)/target
TOOLS := $(TARGET)/tools
VENV := $(TARGET)/venv
VENV_NEWEST := $(TARGET)/venv-newest
INPUTS := $(TARGET)/test-inputs
PY_CLIENT := clients/python
GO_CLIENT := clients/go
TS_CLIENT := clients/typescript

export CARGO_INCREMENTAL := 0
export CALLGATE_TEST_INPUTS := $(INPUTS)

.PHONY: help demo test bench soak generate baseline inputs format \
	check-rust check-proto test-rust test-python test-go test-typescript clean

help: ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort

demo: $(VENV)/.ready ## run the main job: a sidecar, a Python executor, recorded messages
	@echo "building the sidecar (some minutes the first time)"
	@$(CARGO) build --locked --quiet --bin callgate
	@$(TARGET)/debug/callgate demo --python $(VENV)/bin/python --examples $(PY_CLIENT)/examples

test: check-proto check-rust test-rust test-python test-go test-typescript ## run every test
	@echo "all tests passed"

check-proto: $(TOOLS)/.ready
	cd proto && $(TOOLS)/bin/buf lint && $(TOOLS)/bin/buf format -d --exit-code
	cd proto && $(TOOLS)/bin/buf breaking --against baseline.binpb

check-rust:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets --features failpoints -- -D warnings
	$(CARGO) run --locked --quiet -p callgate-codegen -- --check

test-rust: inputs
	$(CARGO) test --locked --workspace --features failpoints

test-python: $(VENV)/.ready $(VENV_NEWEST)/.ready
	# The tests' own build of the program: another one would build every dependency again.
	$(CARGO) test --locked --quiet --workspace --features failpoints --no-run
	$(VENV)/bin/python $(PY_CLIENT)/generate.py --check
	cd $(PY_CLIENT) && $(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .
	cd $(PY_CLIENT) && $(VENV)/bin/basedpyright
	cd $(PY_CLIENT) && CALLGATE_BIN=$(TARGET)/debug/callgate $(VENV)/bin/python -m pytest -q tests
	cd $(PY_CLIENT) && $(VENV_NEWEST)/bin/python -m pytest -q tests/unit
	$(TARGET)/debug/callgate demo --python $(VENV)/bin/python --examples $(PY_CLIENT)/examples

test-go: $(TOOLS)/.ready
	cd $(GO_CLIENT) && $(GO) mod download && $(GO) mod download -modfile=tools.mod
	$(CARGO) test --locked --quiet --workspace --features failpoints --no-run
	cd $(GO_CLIENT) && test -z "$$(gofmt -l .)" && ./generate.sh --check && $(GO) mod tidy -diff
	cd $(GO_CLIENT) && $(GO) vet ./... && $(GO) vet -tags real ./tests/real
	cd $(GO_CLIENT) && $(GO) tool -modfile=tools.mod staticcheck ./...
	cd $(GO_CLIENT) && $(GO) tool -modfile=tools.mod staticcheck -tags real ./tests/real
	cd $(GO_CLIENT) && $(GO) test -race -count=1 ./...
	cd $(GO_CLIENT) && CALLGATE_BIN=$(TARGET)/debug/callgate $(GO) test -race -count=1 -tags real ./tests/real

test-typescript: $(TOOLS)/.ready
	$(CARGO) test --locked --quiet --workspace --features failpoints --no-run
	cd $(TS_CLIENT) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	cd $(TS_CLIENT) && node generate.mjs --check
	cd $(TS_CLIENT) && npm run -s check && npm -s test
	cd $(TS_CLIENT) && CALLGATE_BIN=$(TARGET)/debug/callgate npm run -s test:real
	cd $(TS_CLIENT) && npm run -s build && npm run -s pack:check

bench: $(VENV)/.ready ## measure against the bare relay; writes target/bench.json
	$(CARGO) build --locked --release --bins
	$(TARGET)/release/callgate-bench run --callgate $(TARGET)/release/callgate --json $(TARGET)/bench.json \
		--python $(VENV)/bin/python --python-hook $(PY_CLIENT)/bench/hook.py $(BENCH_FLAGS)

soak: ## write a million audit records over several segments and verify them; says how long it took
	CALLGATE_SOAK_RECORDS=1000000 timeout 1800 $(CARGO) test --locked --release --workspace --features failpoints \
		--test it -- --exact store::soak::very_many_records_are_written_and_verified --nocapture

generate: ## write the generated protobuf code again
	$(CARGO) run --locked --quiet -p callgate-codegen

baseline: $(TOOLS)/.ready ## take the present wire contract as the one that must not break
	cd proto && $(TOOLS)/bin/buf build -o baseline.binpb

format: $(VENV)/.ready $(TOOLS)/.ready ## format everything
	$(CARGO) fmt --all
	cd proto && $(TOOLS)/bin/buf format -w
	cd $(PY_CLIENT) && $(VENV)/bin/ruff format . && $(VENV)/bin/ruff check --fix .
	cd $(GO_CLIENT) && gofmt -w .

inputs: $(INPUTS)/.ready ## download the public test data

# Everything below downloads from the package registries, pinned and checked by hash.

$(TOOLS)/.ready: tests/inputs/tools.txt
	$(PYTHON) -m venv --clear $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	touch $@

$(INPUTS)/.ready: tests/inputs/data.txt $(TOOLS)/.ready
	rm -rf $(INPUTS) && mkdir -p $(INPUTS)
	$(TOOLS)/bin/pip download --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--no-binary jsonschema --require-hashes -d $(INPUTS) -r $<
	tar -xzf $(INPUTS)/jsonschema-*.tar.gz -C $(INPUTS)
	$(PYTHON) -m zipfile -e $(INPUTS)/bfcl_eval-*.whl $(INPUTS)
	touch $@

# The package is installed as users install it, again whenever one of its files changes.
PY_SOURCES := $(shell find $(PY_CLIENT)/src -type f -not -path '*/__pycache__/*') $(PY_CLIENT)/pyproject.toml

$(VENV)/.deps: $(PY_CLIENT)/requirements-dev.txt
	$(PYTHON) -m venv --clear $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	touch $@

$(VENV_NEWEST)/.deps: $(PY_CLIENT)/requirements-newest.txt
	$(PYTHON) -m venv --clear $(VENV_NEWEST)
	$(VENV_NEWEST)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	touch $@

%/.ready: %/.deps $(PY_SOURCES)
	$*/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--force-reinstall ./$(PY_CLIENT)
	touch $@

clean: ## remove everything that was built or downloaded
	rm -rf $(TARGET)

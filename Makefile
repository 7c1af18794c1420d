# Every target calls a script under scripts/; the scripts also run on their own.
# Honoured from the environment or the command line: CARGO, CARGO_TARGET_DIR, EBPF=0 (build without eBPF).

SHELL := /bin/bash
.DEFAULT_GOAL := help

# What `make run` passes to the program, e.g. make run ARGS="predict --help"
ARGS ?= find --quick
export EBPF WASM

.PHONY: help setup run build check test measure fmt web book doc deny bare dist clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing: Rust, a C compiler, what eBPF needs
	@scripts/setup.sh

run: ## set up, build for release, find this host's cliff (ARGS="..." for another command)
	@scripts/setup.sh
	@scripts/build.sh
	@scripts/cargo.sh run --release -p netcliff -- $(ARGS)

build: ## set up and build for release
	@scripts/setup.sh
	@scripts/build.sh

check: ## the inner loop: format, clippy, tests without root and namespaces (minutes)
	@scripts/setup.sh --test
	@scripts/test.sh check

test: ## what accepts a change: check, testbeds, a thinned grid, the browser where the page changed
	@scripts/setup.sh --test
	@scripts/test.sh test

measure: ## before a release: paced tests, whole grids, browsers, Python, guests, BSD (an hour)
	@scripts/setup.sh --test
	@scripts/test.sh measure

fmt: ## format the sources
	@scripts/setup.sh --test
	@scripts/cargo.sh fmt --all

web: ## build the explorer (the page of netcliff serve) into web/dist; needs Node.js (WASM=0: the page alone)
	@scripts/setup.sh --test
	@scripts/web.sh

book: ## build the book into target/book (seconds)
	@scripts/doc.sh

doc: book ## build the book, then the API documentation
	@scripts/setup.sh
	@scripts/cargo.sh doc --workspace --no-deps

deny: ## set up and check licences, bans, sources, advisories with cargo-deny (advisories need the network)
	@scripts/setup.sh --test
	@scripts/cargo.sh deny --locked check

bare: ## run both commands of the README in a bare Debian root (root, mmdebstrap, half an hour)
	@scripts/checks/bare.sh

dist: ## build packages, static binaries, image, checksums and SBOM into dist/ (x86-64 and aarch64)
	@scripts/dist.sh

clean: ## remove the build directory
	@scripts/cargo.sh clean

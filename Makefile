# One entry for each thing that people and machines do here. `make` lists them.
.DEFAULT_GOAL := help
.PHONY: help run test check bench-embedded compiler

CARGO ?= cargo

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Without it the build ends in a linker error that names neither.
compiler:
	@command -v cc >/dev/null || { echo "error: no C compiler (cc): install build-essential (Debian, Ubuntu) or gcc" >&2; exit 1; }

run: compiler ## build, and serve the demo on http://127.0.0.1:8080 (data in var/demo; Ctrl-C ends it)
	$(CARGO) build --release -p doorbuster
	exec ./target/release/doorbuster serve --demo --data-dir var/demo

test: ## install what the tests need (nginx, ab, Chromium...), then run all of them
	./dev/install-test-packages
	$(CARGO) test --workspace

check: compiler ## format, lints, licences and sources of dependencies, documentation; warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	./dev/check-dependencies
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --workspace --no-deps

bench-embedded: ## measure the embedded profile beside nginx: medians of 5 interleaved rounds
	./dev/install-test-packages
	$(CARGO) build --release -p doorbuster
	./target/release/doorbuster bench embedded --rounds 5

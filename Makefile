# One target for each task of people and machines here. `make` lists them.
.DEFAULT_GOAL := help
.PHONY: help run dist run-cluster try-shop test simulate faults alarms fuzz soak check bench bench-embedded bench-cluster engines-up engines-down compiler

CARGO ?= cargo

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Without a C compiler the build fails with a linker error that does not mention it.
compiler:
	@command -v cc >/dev/null || { echo "error: no C compiler (cc): install build-essential (Debian, Ubuntu) or gcc" >&2; exit 1; }

run: compiler ## build, and serve the demo on http://127.0.0.1:8080 (data in var/demo; Ctrl-C stops it)
	$(CARGO) build --release -p doorbuster
	exec ./target/release/doorbuster serve --demo --data-dir var/demo

dist: compiler ## build what a shop deploys, optimised as a whole: target/dist/doorbuster (five minutes on 2 cores)
	$(CARGO) build --profile dist -p doorbuster

run-cluster: compiler ## build, and serve the demo with two servers on Redis, RocketMQ and MariaDB, behind nginx
	$(CARGO) build --release -p doorbuster
	./dev/run-cluster

try-shop: compiler ## build, and start a Vendure shop and Doorbuster beside it, with a login to buy with (data in var/try-shop; Ctrl-C stops both)
	./dev/install-test-packages vendure
	$(CARGO) build --release -p doorbuster
	exec ./dev/try-shop

# A broker of a test lives for seconds: what the second compiler makes of it is never used.
test: export JDK_JAVA_OPTIONS = -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
test: ## install what the tests need (nginx, ab, Chromium...), then run all of them
	./dev/install-test-packages
	./dev/install-api-tools >/dev/null
	./dev/install-stripe-mock >/dev/null
	./dev/install-vendure >/dev/null
	trap ./dev/down EXIT; trap 'exit 130' INT TERM; ./dev/up redis redis-cluster mariadb rocketmq && CARGO='$(CARGO)' ./dev/test

SEEDS ?= 1000
FROM ?= 0
simulate: ## play SEEDS=1000 faulty nights of a cluster, crowds at its gate, and the same calls on the engines and on what stands in for them, FROM=0 on (about 20 minutes on 2 cores)
	./dev/install-test-packages build redis valkey clocks
	CARGO='$(CARGO)' ./dev/simulate $(SEEDS) $(FROM)

faults: ## run every fault of the cluster, long, and write docs/faults.md (about 15 minutes)
	./dev/install-test-packages
	DOORBUSTER_FAULTS=full $(CARGO) test -p doorbuster --test faults -- --nocapture

alarms: ## make every alert and verdict happen, and write what it showed into docs/runbook.md (about a quarter of an hour)
	./dev/install-test-packages
	DOORBUSTER_ALARMS=full $(CARGO) test -p doorbuster --test it -- alarms::made --nocapture

engines-up: ## start Redis, Redis Cluster, RocketMQ, MariaDB and nginx on loopback (dev/status says where)
	./dev/up all

engines-down: ## stop them; their data stay (dev/down --wipe removes those)
	./dev/down

MINUTES ?= 10
fuzz: compiler ## fuzz what reads bytes from others, MINUTES=10 for each of nine targets; what they found stays in fuzz/corpus
	./dev/fuzz --minutes $(MINUTES)

HOURS ?= 3
soak: ## everything at once for HOURS=3: both profiles under faults, kill -9 and strangers; writes docs/soak.md
	./dev/install-test-packages
	DOORBUSTER_SOAK_HOURS=$(HOURS) $(CARGO) test --release -p doorbuster --test faults -- soak --nocapture

check: compiler ## format, lints, licences and sources of dependencies, documentation; warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	./dev/check-dependencies
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --workspace --no-deps

bench: ## reproduce the published experiments on real engines: ./bench-report/ (a quarter of an hour on 2 cores, once all is installed and built)
	./dev/install-test-packages
	$(CARGO) build --release -p doorbuster
	./target/release/doorbuster bench run --all --quick

bench-embedded: ## measure the embedded profile beside nginx: medians of 5 interleaved repeats (a quarter of an hour)
	./dev/install-test-packages
	$(CARGO) build --release -p doorbuster
	./target/release/doorbuster bench run order-embedded read-embedded --full --repeats 5

bench-cluster: ## measure the cluster profile on real engines: medians of 5 repeats (three quarters of an hour)
	./dev/install-test-packages
	$(CARGO) build --release -p doorbuster
	./target/release/doorbuster bench run order-cluster gate edge submit-order --full --repeats 5

# The targets of redis-lock; `make` alone lists them. "##" is for users, "#:" for developers.

PORT ?= 6379

MODULE := target/release/libredis_lock.so

# The server's configuration and the tests look for the module in ./target, wherever else you keep yours.
export CARGO_TARGET_DIR := $(CURDIR)/target
export PORT PREFIX DESTDIR REDIS_SERVER SERVERS DIFFERENCES ONCE ONLY QUICK CHECK DRAW CONFIG PROFILES ARM64 MUTANTS SEED

.PHONY: help build run cluster cli locktop test test-servers test-clients explore mutants record soak bench stalls lint instructions install dist deb \
        release supply fuzz site clean

help: ## list the targets
	@echo "Use it:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile
	@echo; echo "Develop it:"
	@awk -F ':.*#: ' '/^[a-z-]+:.*#: / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  REDIS_SERVER=/path/to/redis-server (or valkey-server): the server for run, test, bench and stalls"
	@echo '  SERVERS="redis-7.2 valkey-9.1/4": some of the ten servers; /4 with four io-threads'
	@echo "  DIFFERENCES=1: test-servers runs only what differs between servers"

build: ## build the module: target/release/libredis_lock.so
	@scripts/setup build
	cargo build --release

run: ## start a server with the module in this terminal (PORT=6379)
	@scripts/run

cluster: ## start three masters and replicas, and show a lock that survives a failover (PORT=7000)
	@PORT=$(if $(filter 6379,$(PORT)),7000,$(PORT)) scripts/run cluster

cli: ## build the command-line tool: target/cli/release/redis-lock
	@scripts/setup build
	@cargo build --release --locked --manifest-path clients/cli/Cargo.toml --target-dir target/cli

locktop: ## show a server's locks, holders, waiters and rates (PORT=6379, OPTIONS="--host …")
	@$(MAKE) --no-print-directory cli
	@target/cli/release/redis-lock top --port $(PORT) $(OPTIONS)

test: #: run all tests (ONLY=split: one row or column of the table in docs/testing.md)
	@scripts/test

test-servers: #: run the server tests on ten servers, two of them also with io-threads
	@scripts/test servers

test-clients: #: run the examples, the packages' tests and those against other lock libraries
	@scripts/test-clients

explore: #: exhaustively check small models of the core, up to ten minutes (LOCK_EXPLORE_WORLD=session)
	@scripts/setup build
	cargo test --profile exploring --lib -- --ignored --nocapture explore::every_history

mutants: #: mutation testing of the core (MUTANTS=400, SEED=2026, ONLY=Queues)
	@scripts/mutants

record: #: record tests/histories again
	@LOCK_RECORD=$(CURDIR)/tests/histories scripts/test --test server -- histories::faults histories::networks \
		histories::places histories::slots histories::takeovers

soak: #: randomised tests, simulated and on a server, until Ctrl-C
	@scripts/test soak

bench: #: compare with other locks, up to 25 minutes (ONLY=market, QUICK=1, DRAW=1; benches/README.md)
	@scripts/bench

stalls: #: measure latency spikes (ONLY=flush, QUICK=1; CHECK=1: fail above a bound)
	@scripts/bench stalls

lint: #: check format and lints, as CI does
	@scripts/setup lint
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --all-features -- -D warnings
	cargo fmt --check --manifest-path examples/rust/Cargo.toml
	CARGO_TARGET_DIR=$(CURDIR)/target/clients/rust cargo clippy --manifest-path examples/rust/Cargo.toml -- -D warnings
	cargo fmt --check --manifest-path clients/rust/Cargo.toml
	CARGO_TARGET_DIR=$(CURDIR)/target/clients/rust cargo clippy --locked --all-targets --manifest-path clients/rust/Cargo.toml -- -D warnings
	cargo fmt --check --manifest-path clients/cli/Cargo.toml
	CARGO_TARGET_DIR=$(CURDIR)/target/clients/rust cargo clippy --locked --all-targets --manifest-path clients/cli/Cargo.toml -- -D warnings

instructions: #: count instructions per operation (CHECK=1: against CI's bounds; SERVERS="redis-8.6 valkey-9.1")
	@scripts/bench instructions $(if $(CHECK),check,$(if $(ACCEPT),accept))

install: $(MODULE) ## install the module and print its path (PREFIX=/opt, DESTDIR=)
	@scripts/install

dist: build #: build a tar archive: target/dist/
	@scripts/release tar

deb: build ## build a Debian package: target/dist/
	@scripts/release deb

release: #: build all artifacts from a clean checkout and test them on bare systems: target/dist/ (ARM64=no)
	@scripts/release

$(MODULE):
	@$(MAKE) build

supply: #: check licences, yanked and oldest dependencies, and that builds are reproducible
	@scripts/supply

fuzz: #: fuzz all commands with libFuzzer (FUZZ_SECONDS=60)
	@scripts/fuzz

site: #: build the documentation as a site: target/site/ (SITE_REPOSITORY=https://..., where links to the code lead)
	@python3 -m venv target/site-tools
	@target/site-tools/bin/pip install --quiet --disable-pip-version-check --requirement packaging/site/requirements.txt
	@NO_MKDOCS_2_WARNING=1 target/site-tools/bin/mkdocs build --strict --quiet --config-file packaging/site/mkdocs.yml
	@npm install --silent --no-audit --no-fund --prefix target/site-tools mermaid@11
	@cp target/site-tools/node_modules/mermaid/dist/mermaid.min.js target/site/assets/
	@echo target/site/index.html

clean: #: remove build output (./data of make run and ./servers stay)
	cargo clean

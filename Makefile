# Everything that is done with redis-lock, one word each. `make` alone lists them.

PORT ?= 6379

MODULE := target/release/libredis_lock.so

# The server's configuration and the tests look for the module in ./target, wherever else you keep yours.
export CARGO_TARGET_DIR := $(CURDIR)/target
export PORT PREFIX DESTDIR REDIS_SERVER SERVERS DIFFERENCES ONCE ONLY QUICK CHECK DRAW CONFIG PROFILES ARM64 MUTANTS SEED

.PHONY: help build run cluster cli locktop test test-servers test-clients explore mutants record soak bench stalls lint instructions install dist deb \
        release supply fuzz clean

help: ## list what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  REDIS_SERVER=/path/to/redis-server chooses the server for run, test, bench and stalls (also valkey-server)."
	@echo '  SERVERS="redis-7.2 valkey-9.1/4" chooses among the ten; /4 with four io-threads.'
	@echo "  DIFFERENCES=1 has test-servers run only what servers do differently."

build: ## build the module: target/release/libredis_lock.so
	@scripts/setup build
	cargo build --release

run: ## start a server with the module, here in the terminal (PORT=6379)
	@scripts/run

cluster: ## start three masters and three replicas with it, and show a lock that outlasts its master (PORT=7000)
	@PORT=$(if $(filter 6379,$(PORT)),7000,$(PORT)) scripts/run cluster

cli: ## build the command line: target/cli/release/redis-lock
	@scripts/setup build
	@cargo build --release --locked --manifest-path clients/cli/Cargo.toml --target-dir target/cli

locktop: ## show the locks of a server in the terminal: who holds, who waits, rates (PORT=6379, OPTIONS="--host …")
	@$(MAKE) --no-print-directory cli
	@target/cli/release/redis-lock top --port $(PORT) $(OPTIONS)

test: ## run all tests, those on a real server too (ONLY=split: a row or a column of the table in docs/testing.md)
	@scripts/test

test-servers: ## run those on ten servers, Redis 7.0 to 8.10 and Valkey 8.0 to 9.1, on two of them with io-threads too
	@scripts/test servers

test-clients: ## run the examples in each language, the tests beside other libraries' locks, those of the packages and of the command line
	@scripts/test-clients

explore: ## live through every history of some small worlds of the core, in up to ten minutes (LOCK_EXPLORE_WORLD=session)
	@scripts/setup build
	cargo test --profile exploring --lib -- --ignored --nocapture explore::every_history

mutants: ## break the core in small ways, and see whether its tests notice (MUTANTS=400, SEED=2026, ONLY=Queues)
	@scripts/mutants

record: ## record the histories of tests/histories anew
	@LOCK_RECORD=$(CURDIR)/tests/histories scripts/test --test server -- histories::faults histories::networks \
		histories::places histories::slots histories::takeovers

soak: ## look for trouble by chance, in simulation and on a real server, until told to stop
	@scripts/test soak

bench: ## measure it beside other locks, in up to 25 minutes (ONLY=market, QUICK=1, DRAW=1; benches/README.md)
	@scripts/bench

stalls: ## measure what could hold up the whole server (ONLY=flush, QUICK=1; CHECK=1: fail if a bound is missed)
	@scripts/bench stalls

lint: ## check format and lints, as CI does
	@scripts/setup lint
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --all-features -- -D warnings
	cargo fmt --check --manifest-path examples/rust/Cargo.toml
	CARGO_TARGET_DIR=$(CURDIR)/target/clients/rust cargo clippy --manifest-path examples/rust/Cargo.toml -- -D warnings
	cargo fmt --check --manifest-path clients/rust/Cargo.toml
	CARGO_TARGET_DIR=$(CURDIR)/target/clients/rust cargo clippy --locked --all-targets --manifest-path clients/rust/Cargo.toml -- -D warnings
	cargo fmt --check --manifest-path clients/cli/Cargo.toml
	CARGO_TARGET_DIR=$(CURDIR)/target/clients/rust cargo clippy --locked --all-targets --manifest-path clients/cli/Cargo.toml -- -D warnings

instructions: ## count the server's instructions for each operation (CHECK=1: of those that are guarded, as CI does; SERVERS="redis-8.6 valkey-9.1")
	@scripts/bench instructions $(if $(CHECK),check,$(if $(ACCEPT),accept))

install: $(MODULE) ## put the built module where the server may load it, and say where (PREFIX=/opt, DESTDIR=)
	@scripts/install

dist: build ## make a tar of the built module: target/dist/
	@scripts/release tar

deb: build ## make a Debian package of it: target/dist/
	@scripts/release deb

release: ## make all that is published, from a clean checkout, and try it on bare systems: target/dist/ (ARM64=no)
	@scripts/release

$(MODULE):
	@$(MAKE) build

supply: ## what it is built of: licences, yanked and oldest versions; and that a second build is the same file
	@scripts/supply

fuzz: ## say to each command whatever libFuzzer finds, for a minute (FUZZ_SECONDS=60)
	@scripts/fuzz

clean: ## remove what was built (./data, of the server of `make run`, and ./servers stay)
	cargo clean

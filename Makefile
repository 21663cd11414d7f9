# Everything that is done with redis-lock, one word each. `make` alone lists them.

PORT    ?= 6379
PREFIX  ?= /usr/local
DESTDIR ?=

MODULE     := target/release/libredis_lock.so
MODULE_DIR := $(DESTDIR)$(PREFIX)/lib/redis/modules

# The server's configuration and the tests look for the module in ./target, wherever else you keep yours.
export CARGO_TARGET_DIR := $(CURDIR)/target
export PORT REDIS_SERVER SERVERS ONLY QUICK CHECK

.PHONY: help build run test test-servers test-clients soak bench stalls lint instructions install dist deb clean

help: ## list what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  REDIS_SERVER=/path/to/redis-server chooses the server for run, test, bench and stalls (also valkey-server)."
	@echo '  SERVERS="redis-7.2 valkey-9.1/4" chooses among the ten; /4 with four io-threads.'

build: ## build the module: target/release/libredis_lock.so
	@scripts/setup build
	cargo build --release

run: ## start a server with the module, here in the terminal (PORT=6379)
	@scripts/run

test: ## run all tests, those on a real server too
	@scripts/test

test-servers: ## run those on ten servers, Redis 7.0 to 8.10 and Valkey 8.0 to 9.1, on two of them with io-threads too
	@scripts/test-servers

test-clients: ## run the examples in each language, and the tests beside other libraries' locks
	@scripts/test-clients

soak: ## look for trouble by chance, in simulation and on a real server, until told to stop
	@scripts/soak

bench: ## measure it beside other locks, in a quarter of an hour (ONLY=market, QUICK=1; benches/README.md)
	@scripts/bench

stalls: ## measure what could hold up the whole server (ONLY=flush, QUICK=1; CHECK=1: fail if a bound is missed)
	@scripts/stalls

lint: ## check format and lints, as CI does
	@scripts/setup lint
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --all-features -- -D warnings
	cargo fmt --check --manifest-path examples/rust/Cargo.toml
	CARGO_TARGET_DIR=$(CURDIR)/target/clients/rust cargo clippy --manifest-path examples/rust/Cargo.toml -- -D warnings

instructions: ## count the server's instructions for each operation (CHECK=1: of a pair, as CI does)
	@scripts/instructions $(if $(CHECK),check,$(if $(ACCEPT),accept))

install: $(MODULE) ## put the built module into PREFIX/lib/redis/modules (PREFIX=/usr/local, DESTDIR=)
	install -d "$(MODULE_DIR)"
	install -m 755 $(MODULE) "$(MODULE_DIR)/"
	@echo "Add to the server's configuration:  loadmodule $(PREFIX)/lib/redis/modules/$(notdir $(MODULE))"

dist: build ## make a tar of the built module: target/dist/
	@scripts/dist

deb: build ## make a Debian package of it: target/debian/
	@scripts/deb

$(MODULE):
	@$(MAKE) build

clean: ## remove what was built (./data, of the server of `make run`, and ./servers stay)
	cargo clean

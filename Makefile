# The commands a developer or a user types; each does its own set-up. `make help` lists them.

PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
export PREFIX DESTDIR

.DEFAULT_GOAL := build

.PHONY: help
help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

.PHONY: build
build: ## build the tool and its DynamoRIO client (says what to install where something is missing)
	scripts/setup.sh --check build
	$(MAKE) --no-print-directory native
	$(CARGO) build --release --locked

.PHONY: native
native:
	scripts/dynamorio.sh
	scripts/bpf.sh
	$(MAKE) --no-print-directory -C native/agent BUILD=$(CURDIR)/build/native
	$(MAKE) --no-print-directory -C native/mpi BUILD=$(CURDIR)/build/native
	$(MAKE) --no-print-directory -C workloads BUILD=$(CURDIR)/build/workloads
	$(MAKE) --no-print-directory -C workloads/mpi BUILD=$(CURDIR)/build/workloads/mpi

.PHONY: setup
setup: ## install what building, testing and the demo need
	scripts/setup.sh build test demo --if-possible browser

.PHONY: demo
demo: ## profile, map and run a real program from a Debian package
	scripts/setup.sh build demo
	$(MAKE) --no-print-directory build
	scripts/demo.sh

.PHONY: test
test: ## run all tests; what cannot run here is skipped aloud
	scripts/setup.sh build --if-possible test guest
	$(MAKE) --no-print-directory native
	scripts/test.sh

.PHONY: test-numa
test-numa: ## run the tests that need more PUs and NUMA nodes than this machine may have, in an emulated one
	scripts/setup.sh build --if-possible test guest
	scripts/test-numa.sh
	scripts/test-numa.sh --pus 32 online

.PHONY: lint
lint: ## formatting and lints, warnings being errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# Where the generated files go: a test generates others and compares.
ABI ?= crates/observe/src/dbi/abi.rs
FAULTS_ABI ?= crates/online/src/faults/abi.rs
MPI_ABI ?= crates/observe/src/mpi/abi.rs
RECORDING_ABI ?= crates/observe/src/recording/abi.rs
BINDGEN = bindgen --rust-target 1.85 --no-doc-comments --allowlist-item 'cohabit_.*|COHABIT_.*'

.PHONY: abi
abi: ## generate the Rust side of the C headers again (needs bindgen)
	$(BINDGEN) native/abi.h --output $(ABI)
	$(BINDGEN) native/bpf/faults_abi.h --output $(FAULTS_ABI)
	$(BINDGEN) native/mpi/abi.h --output $(MPI_ABI)
	$(BINDGEN) native/recording_abi.h --output $(RECORDING_ABI)

.PHONY: bench
bench: ## what profiling costs, over native and beside cachegrind (COHABIT_NPB names the programs)
	$(MAKE) --no-print-directory build
	benches/run.sh

.PHONY: bench-mpi
bench-mpi: ## what observing MPI ranks costs, beside Open MPI's own monitoring
	$(MAKE) --no-print-directory build
	benches/mpi.sh

.PHONY: bench-cluster
bench-cluster: ## what mappings over several hosts are worth, on the emulated cluster (root; COHABIT_NPB_MPI: its binaries)
	$(MAKE) -s -C workloads/mpi BUILD=$(CURDIR)/build/workloads/mpi
	benches/cluster.py $(if $(COHABIT_NPB_MPI),--npb $(COHABIT_NPB_MPI))

.PHONY: experiments-quick
experiments-quick: ## do the papers' experiments again on small inputs, in simulation (COHABIT_NPB names programs)
	$(MAKE) --no-print-directory build
	scripts/experiments-quick.sh

.PHONY: fresh-check
fresh-check: ## prove 'make demo' and 'make test' in a fresh Debian 13 (root, debootstrap)
	scripts/fresh-check.sh

.PHONY: install
install: $(if $(wildcard target/release/cohabit),,build) ## install what was built under PREFIX (/usr/local), below DESTDIR if given
	scripts/install.sh

.PHONY: book
book: ## docs/ as a book of pages, into build/book (needs mdbook: cargo install mdbook)
	@command -v mdbook >/dev/null || { echo "mdbook is missing: cargo install mdbook --locked" >&2; exit 1; }
	mdbook build

PYTHON ?= python3

.PHONY: python-test
python-test: ## build the Python package into python/.venv, and run its tests (needs what building needs)
	scripts/setup.sh --check build
	$(PYTHON) -m venv python/.venv
	python/.venv/bin/pip install --quiet './python[test]'
	cd python && PATH=$(CURDIR)/target/release:$$PATH .venv/bin/python -m pytest -q
	cd python && .venv/bin/python -m mypy --strict package/cohabit

.PHONY: deb
deb: build ## build/packages/cohabit_VERSION_amd64.deb: for this release of Debian or Ubuntu and newer ones
	scripts/setup.sh package
	scripts/package.sh deb

.PHONY: tarball
tarball: build ## build/packages/cohabit-VERSION-x86_64.tar.xz: runs wherever it is unpacked, with a module file
	scripts/setup.sh package
	scripts/package.sh tarball

.PHONY: package-check
package-check: deb tarball ## prove both packages in fresh Debian 12 and 13 and Ubuntu 24.04 (root, debootstrap)
	scripts/package-check.sh

.PHONY: clean
clean: ## remove what was built
	$(CARGO) clean
	rm -rf build

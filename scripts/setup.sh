#!/usr/bin/env bash
# Installs what building, testing or the demo needs, or says exactly what to install. Fast when all is there.
#
#   scripts/setup.sh [--check] [build|test|demo|guest]...
#
# With --check nothing is installed: what is missing is said, and that is a failure.
# The lists below are the only place where packages are named.
set -euo pipefail
cd "$(dirname "$0")/.."

rust_minimum=1.85

declare -A packages=(
    # certificates for cargo; hwloc, what it links (udev), Scotch, METIS; cmake, a C++ compiler and patch for DynamoRIO;
    # libelf and zlib for libbpf, which is built from its crate
    [build]="ca-certificates libhwloc-dev libudev-dev libscotch-dev libmetis-dev cmake gcc g++ make patch pkg-config libelf-dev zlib1g-dev"
    # clang and libbpf's headers for the eBPF object; numpy reads the profiles back; gcc brings OpenMP for the workloads;
    # both MPIs, and gfortran for their programs; ip and tc for the emulated cluster
    [test]="clang libbpf-dev python3 python3-numpy libomp-dev hwloc-nox likwid metis openmpi-bin libopenmpi-dev mpich libmpich-dev gfortran iproute2"
    # the multi-threaded program that the demo profiles
    [demo]="x264"
    # the emulated machine of `make test-numa`; its kernel is fetched by scripts/guest/kernel.sh and not installed
    [guest]="qemu-system-x86 busybox-static cpio"
)
rust_packages="rustc cargo"
rust_tools="rustfmt rust-clippy"

check=no
if [ "${1:-}" = --check ]; then
    check=yes
    shift
fi

say() { echo "setup: $*" >&2; }

# Whether version $1 is at least version $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

have_rust() {
    local version
    version=$(rustc --version 2>/dev/null | cut -d ' ' -f 2) && cargo --version >/dev/null 2>&1 &&
        at_least "$version" "$rust_minimum"
}

have_rust_tools() { cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; }

have_apt() { command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; }

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# How to become root: nothing when we are, sudo where it asks for no password or can ask for one.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        echo env
    elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
        echo sudo
    else
        return 1
    fi
}

# Installs packages by apt, or says which are missing.
install() {
    local root
    if [ "$check" = yes ] || ! root=$(as_root); then
        say "missing: $*"
        echo "  run 'make setup', or as root: apt-get install $*" >&2
        exit 1
    fi
    say "installing: $*"
    # Lists may be absent or too old to install from; an update that fails is seen by the install after it.
    $root apt-get -qq update >&2 || true
    local log=build/setup.log
    mkdir -p build
    if ! $root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 \
        install --no-install-recommends "$@" >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        say "apt-get failed; its whole output is in $log"
        exit 1
    fi
}

# The version apt would install of a package, without epoch; empty where it has none.
candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: \([0-9]*:\)\{0,1\}\([0-9.]*\).*/\2/p'; }

# Rust: a toolchain in PATH that is new enough is never replaced; else the distribution's; else rustup.
setup_rust() {
    if have_rust; then
        return
    fi
    if have_apt && [ -z "$(candidate rustc)" ] && [ "$check" = no ] && root=$(as_root); then
        $root apt-get -qq update >&2 || true
    fi
    if have_apt && at_least "$(candidate rustc)" "$rust_minimum" && ! command -v rustup >/dev/null; then
        # shellcheck disable=SC2086 # a list
        install $rust_packages $rust_tools
    else
        if ! command -v rustup >/dev/null && have_apt && [ -n "$(candidate rustup)" ]; then
            install rustup
        fi
        if ! command -v rustup >/dev/null || [ "$check" = yes ]; then
            say "Rust $rust_minimum or newer is needed; this distribution has $(candidate rustc | grep . || echo none)"
            echo "  run 'make setup', or install rustup (https://rustup.rs) and with it a newer Rust" >&2
            exit 1
        fi
        say "installing a Rust toolchain with rustup"
        rustup toolchain install stable --profile minimal --component rustfmt,clippy >&2
        rustup default stable >&2
    fi
    have_rust || { say "cargo in PATH is still older than $rust_minimum: put the new one first in PATH"; exit 1; }
}

# Formatter and linter, beside whatever toolchain is in use.
setup_rust_tools() {
    if have_rust_tools; then
        return
    elif command -v rustup >/dev/null; then
        rustup component add rustfmt clippy >&2
    elif have_apt && installed rustc; then
        # shellcheck disable=SC2086 # a list
        install $rust_tools
    else
        say "cargo fmt or cargo clippy is missing: the checks that need them will be skipped"
    fi
}

missing=()
for purpose in "${@:-build}"; do
    for package in ${packages[$purpose]:?unknown purpose: $purpose}; do
        if have_apt && ! installed "$package"; then
            missing+=("$package")
        fi
    done
done
if [ ${#missing[@]} -gt 0 ]; then
    install "${missing[@]}"
elif ! have_apt && ! { pkg-config --exists hwloc && command -v cmake gcc g++ make patch >/dev/null; }; then
    say "this is not a Debian or Ubuntu: install what these packages hold: ${packages[*]}"
    exit 1
fi
setup_rust
case " $* " in *" test "*) setup_rust_tools ;; esac

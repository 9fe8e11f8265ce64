#!/usr/bin/env bash
# Installs what building, testing or the demo needs, or says exactly what to install. Fast when all is there.
#
#   scripts/setup.sh [--check] [build|test|demo|guest|browser|package]... [--if-possible [test|demo|guest|browser]...]
#
# With --check nothing is installed: what is missing is said, and that is a failure. So it is where we cannot become
# root; but what is only wanted if possible is said to be missing, and done without.
# The lists below are the only place where packages are named.
set -euo pipefail
cd "$(dirname "$0")/.."

rust_minimum=1.85

declare -A packages=(
    # certificates for cargo; hwloc, what it links (udev), Scotch, METIS; cmake, a C++ compiler and patch for DynamoRIO;
    # libelf and zlib for libbpf, which is built from its crate
    [build]="ca-certificates libhwloc-dev libudev-dev libscotch-dev libmetis-dev cmake gcc g++ make patch pkg-config libelf-dev zlib1g-dev"
    # clang and libbpf's headers for the eBPF object; numpy reads the profiles back; gcc brings OpenMP for the workloads;
    # both MPIs, and gfortran for their programs; ip and tc for the emulated cluster; mold links the tests
    [test]="mold clang libbpf-dev python3 python3-numpy libomp-dev hwloc-nox likwid metis openmpi-bin libopenmpi-dev mpich libmpich-dev gfortran iproute2"
    # the multi-threaded program that the demo profiles; what the eBPF object is built from, for its run without a profile
    [demo]="x264 clang libbpf-dev"
    # the .deb and the tarball
    [package]="debhelper dpkg-dev fakeroot patchelf xz-utils"
    # the emulated machine of `make test-numa`; its kernel is fetched by scripts/guest/kernel.sh and not installed
    [guest]="qemu-system-x86 busybox-static cpio"
    # the browser that the page of `cohabit report` is tried in; large, so no test asks for it: without it that test is skipped
    [browser]="chromium fonts-dejavu-core"
)
# Rust, in the order of preference: the distribution's own; what Debian 12 has beside it for building browsers.
rusts=("rustc cargo rustfmt rust-clippy" "rustc-web cargo-web rustfmt-web")

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

have_rustup() { command -v rustup >/dev/null; }

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

# Installs packages by apt. Nothing that is there is removed for them.
install() {
    local root log=build/setup.log
    root=$(as_root)
    say "installing: $*"
    mkdir -p build
    if ! $root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-remove -o Dpkg::Use-Pty=0 \
        install --no-install-recommends "$@" >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        say "apt-get failed; its whole output is in $log"
        exit 1
    fi
}

# The version apt would install of a package, without epoch; empty where it has none.
candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: \([0-9]*:\)\{0,1\}\([0-9.]*\).*/\2/p'; }

# The packages of a new enough Rust; none where the distribution has none.
packaged_rust() {
    local set
    for set in "${rusts[@]}"; do
        if at_least "$(candidate "${set%% *}")" "$rust_minimum"; then
            echo "$set"
            return
        fi
    done
}

# The packages to install for Rust: a new enough one, but not in place of one that is there, else rustup.
rust_packages() {
    local set
    if have_rustup; then
        return
    fi
    set=$(packaged_rust)
    if [ -n "$set" ] && { [ "$set" = "${rusts[0]}" ] || ! installed rustc; }; then
        echo "$set"
    elif [ -n "$(candidate rustup)" ]; then
        echo rustup
    fi
}

# A toolchain of rustup's, where it is there: the user's default stays what it is, if there is one.
setup_toolchain() {
    say "installing a Rust toolchain with rustup"
    rustup toolchain install stable --no-self-update --profile minimal --component rustfmt,clippy >&2
    if rustup default >/dev/null 2>&1; then
        rustup override set stable >&2
    else
        rustup default stable >&2
    fi
}

# Formatter and linter, beside whatever toolchain is in use.
setup_rust_tools() {
    if have_rust_tools; then
        return
    elif have_rustup; then
        rustup component add rustfmt clippy >&2
    else
        say "cargo fmt or cargo clippy is missing: the checks that need them will be skipped"
    fi
}

# The packages among those of the purposes named that are not installed.
missing_of() {
    local purpose package
    for purpose in "$@"; do
        for package in ${packages[$purpose]:?unknown purpose: $purpose}; do
            installed "$package" || echo "$package"
        done
    done
}

# What to do by hand, a line each.
remedy() {
    [ $# -eq 0 ] || echo "  as root: apt-get install $*"
    if have_rust; then
        return
    fi
    local set
    set=$(packaged_rust)
    if [[ " $* " == *" rustc"* ]]; then
        return
    elif [[ " $* " == *" rustup "* ]]; then
        echo "  then: rustup default stable"
    elif have_rustup; then
        echo "  rustup toolchain install stable && rustup override set stable"
    else
        echo "  for Rust, see https://rustup.rs: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
        echo "  and put it into PATH: . ~/.cargo/env"
        [ -z "$set" ] || echo "  or as root, in place of the packaged rustc: apt-get install $set"
    fi
}

required=() wanted=()
into=required
for purpose in "$@"; do
    if [ "$purpose" = --if-possible ]; then
        into=wanted
    elif [ $into = required ]; then
        required+=("$purpose")
    else
        wanted+=("$purpose")
    fi
done
[ $# -gt 0 ] || required=(build)

if ! have_apt; then
    lacking=()
    for program in cmake gcc g++ make patch pkg-config; do
        command -v "$program" >/dev/null || lacking+=("$program")
    done
    pkg-config --exists hwloc 2>/dev/null || lacking+=("hwloc's headers")
    have_rust || lacking+=("Rust $rust_minimum")
    if [ ${#lacking[@]} -gt 0 ]; then
        say "missing: $(printf '%s, ' "${lacking[@]}" | sed 's/, $//'). This is not a Debian or Ubuntu: nothing is installed here"
        echo "  install what these Debian packages hold: ${packages[build]}" >&2
        exit 1
    fi
    exit
fi

if [ $check = no ] && root=$(as_root); then
    able=yes
else
    able=no
fi
mapfile -t missing < <(missing_of "${required[@]}")
mapfile -t optional < <(missing_of "${wanted[@]}")
need_rust=no
have_rust || need_rust=yes
# Lists may be absent or too old to install from; an update that fails is seen by the install after it.
if [ $able = yes ] && { [ $((${#missing[@]} + ${#optional[@]})) -gt 0 ] || { [ $need_rust = yes ] && ! have_rustup; }; }; then
    $root apt-get -qq update >&2 || true
fi
if [ $able = yes ] && [ ${#optional[@]} -gt 0 ]; then
    # What is only wanted is no reason to fail where the distribution has none of it.
    there=()
    for package in "${optional[@]}"; do
        if [ -n "$(candidate "$package")" ]; then
            there+=("$package")
        else
            say "this distribution has no $package: what needs it is skipped"
        fi
    done
    optional=("${there[@]}")
fi
if [ $need_rust = yes ]; then
    # shellcheck disable=SC2046 # a list
    missing+=($(rust_packages))
fi

if [ $able = yes ]; then
    [ $((${#missing[@]} + ${#optional[@]})) -eq 0 ] || install "${missing[@]}" "${optional[@]}"
elif [ ${#missing[@]} -gt 0 ] || { [ $need_rust = yes ] && { [ $check = yes ] || ! have_rustup; }; }; then
    [ $need_rust = no ] || say "Rust $rust_minimum or newer is needed; here is $(rustc --version 2>/dev/null || echo none)"
    [ ${#missing[@]} -eq 0 ] || say "missing: ${missing[*]}"
    remedy "${missing[@]}" >&2
    [ $check = no ] || echo "  or: make setup" >&2
    exit 1
elif [ ${#optional[@]} -gt 0 ]; then
    say "missing, so that what needs them is skipped: ${optional[*]}"
    echo "  as root: apt-get install ${optional[*]}" >&2
fi
if ! have_rust; then
    if ! have_rustup; then
        say "Rust $rust_minimum or newer is needed; this distribution has $(candidate rustc | grep . || echo none)"
        remedy >&2
        exit 1
    fi
    setup_toolchain
    have_rust || { say "cargo in PATH is still older than $rust_minimum: put the new one first in PATH"; exit 1; }
fi
case " ${required[*]} ${wanted[*]} " in *" test "*) setup_rust_tools ;; esac

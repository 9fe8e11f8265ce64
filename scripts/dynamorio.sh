#!/usr/bin/env bash
# Builds DynamoRIO and cohabit's client for it: build/native/libcohabit_dbi.so and build/native/cohabit-dbi-launch.
#
# What is missing or out of date is built.
#
# DynamoRIO comes from COHABIT_DYNAMORIO (the root of a release or of a build: the folder with
# cmake/DynamoRIOConfig.cmake), else from the sources in the Cargo package named in native/dynamorio/Cargo.toml, with the
# patches beside it.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$PWD/build
own=$build/dynamorio # where DynamoRIO is built when it is ours to build
jobs=$(nproc)

say() { echo "dynamorio: $*" >&2; }

die() {
    say "$1"
    echo "  $2" >&2
    exit 1
}

# Runs a command quietly; its output is shown only where it fails.
quietly() {
    local log=$1
    shift
    mkdir -p "$(dirname "$log")"
    if ! "$@" >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        die "failed: $*" "the whole output is in $log"
    fi
}

root() {
    local given=${COHABIT_DYNAMORIO:-}
    if [ -z "$given" ]; then
        echo "$own"
    elif [ -f "$given/cmake/DynamoRIOConfig.cmake" ]; then
        realpath "$given"
    else
        die "COHABIT_DYNAMORIO=$given: no cmake/DynamoRIOConfig.cmake there" \
            "name the root of a DynamoRIO release or build, or unset COHABIT_DYNAMORIO to have it built"
    fi
}

# The folder of DynamoRIO's sources in cargo's registry cache.
sources() {
    local manifest=native/dynamorio/Cargo.toml
    cargo fetch --quiet --locked --manifest-path "$manifest"
    cargo metadata --locked --offline --format-version 1 --manifest-path "$manifest" |
        grep -o '"manifest_path":"[^"]*/dynamorio-sys-[^"]*/Cargo.toml"' |
        sed 's|"manifest_path":"\(.*\)/Cargo.toml"|\1/dynamorio|'
}

# What is mended in it, each with its reason.
patches=(native/dynamorio/patches/*.patch)

# How DynamoRIO is built: what the client needs of it. Its annotations would tell programs that they run on Valgrind, and
# they would run otherwise (workloads/probes/client_request.c).
settings=(-DCMAKE_BUILD_TYPE=Release -DANNOTATIONS=OFF -DBUILD_CLIENTS=OFF -DBUILD_DOCS=OFF -DBUILD_SAMPLES=OFF
    -DBUILD_TESTS=OFF -DBUILD_TOOLS=OFF -DBUILD_DRSTATS=OFF)
# All that the client and its launcher link and load: half of the whole, most of which is static twins and an ELF library.
parts=(dynamorio drpreload drinjectlib drconfiglib drfrontendlib drdecode drmgr drreg drutil drwrap)

# Built once: the stamp holds the checksum of the lock file and the patches, and the settings and parts, so that another version is
# another build.
build_dynamorio() {
    local stamp=$own/.cohabit-built wanted
    wanted="$(cat native/dynamorio/Cargo.lock "${patches[@]}" | sha256sum) ${settings[*]} ${parts[*]}"
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
        return
    fi
    say "building DynamoRIO (once; one to three minutes)"
    local source
    source=$(sources)
    [ -d "$source" ] || die "no DynamoRIO sources in cargo's cache" "check that cargo can reach its registry"
    rm -rf "$own" "$build/dynamorio-src"
    mkdir -p "$own"
    cp -r "$source" "$build/dynamorio-src" # its cmake may write beside its sources; cargo's cache is not ours
    chmod -R u+w "$build/dynamorio-src"
    for patch in "${patches[@]}"; do
        quietly "$build/patch.log" patch -d "$build/dynamorio-src" -p1 -i "$PWD/$patch"
    done
    quietly "$own/configure.log" cmake -S "$build/dynamorio-src" -B "$own" "${settings[@]}"
    quietly "$own/make.log" make -C "$own" -j "$jobs" "${parts[@]}"
    echo "$wanted" >"$stamp"
}

build_client() {
    local out=$build/native tree=$build/native-cmake
    # A tree that was moved or copied: cmake refuses to go on in it.
    grep -qsxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD/native/dbi" "$tree/CMakeCache.txt" || rm -rf "$tree"
    quietly "$tree/configure.log" cmake -S native/dbi -B "$tree" -DDynamoRIO_DIR="$(root)/cmake" \
        -DCMAKE_LIBRARY_OUTPUT_DIRECTORY="$out" -DCMAKE_RUNTIME_OUTPUT_DIRECTORY="$out"
    quietly "$tree/make.log" make -C "$tree" -j "$jobs"
    # Where the launcher finds DynamoRIO at run time; an installed tree has a real folder of this name.
    ln -sfn "$(root)" "$out/dynamorio"
}

case $(uname -m) in
x86_64) ;;
*) die "the exact profiler needs an x86-64 processor, this is $(uname -m)" "everything but 'cohabit profile' works without it" ;;
esac
[ -n "${COHABIT_DYNAMORIO:-}" ] || build_dynamorio
build_client

#!/bin/sh
# Runs every pattern on both drivers and every probe, natively: each checks the values it reads. What they expect a
# profiler to count is compared with the reference detector by crates/observe/tests/workloads.rs.
# Usage: check.sh BUILD [LAUNCHER...]: with a launcher each program runs under it (`check.sh build cohabit profile --`).
set -u
build=$1
shift
failures=0 runs=0
expected=$(mktemp)
trap 'rm -f "$expected"' EXIT
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"

try() {
    runs=$((runs + 1))
    "$@" >"$expected"
    status=$?
    if [ $status -eq 77 ]; then
        echo "skipped: $*: $(grep '^# skip' "$expected")"
    elif [ $status -ne 0 ]; then
        echo "FAILED ($status): $*"
        failures=$((failures + 1))
    fi
}

for driver in pthreads openmp; do
    patterns=$build/patterns-$driver
    if [ ! -x "$patterns" ]; then
        echo "skipped: $patterns was not built"
        continue
    fi
    for pattern in $("$patterns" --list | cut -d' ' -f1); do
        for threads in 2 3 4 7 16 64; do
            try "$@" "$patterns" "$pattern" --threads $threads --rounds 3 --seed $threads --expect /dev/null
        done
        # A round of the token has a barrier for every thread: a million waits at this size.
        [ "$pattern" = token ] && continue
        try "$@" "$patterns" "$pattern" --threads 1024 --rounds 2 --blocks 1 --seed 1 --expect /dev/null
    done
done
for probe in "$build"/probes/*; do
    case $probe in
    *.so) ;;
    *) try "$@" "$probe" ;;
    esac
done
echo "$runs runs, $failures failed"
[ $failures -eq 0 ]

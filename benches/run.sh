#!/usr/bin/env bash
# What profiling costs: CPU time of programs under cohabit over their native CPU time, with valgrind's cachegrind beside
# it, as a Markdown table for benches/profiling.md.
#
#   [OMP_NUM_THREADS=4] COHABIT_NPB=.../NPB3.3-OMP benches/run.sh [--quick] [PROGRAM.CLASS]...
#
# The programs are the NAS Parallel Benchmarks (OpenMP), which are not ours to ship: COHABIT_NPB names a tree with
# bin/bt.W and so on, built with gcc -O3 -fopenmp. Each has to verify. --quick leaves cachegrind out.
# Without names it takes all nine; lu.W spins, and with more threads than cores needs minutes, natively too.
set -euo pipefail
cd "$(dirname "$0")/.."

cohabit=$PWD/target/release/cohabit
programs=(bt.W cg.A ep.A ft.A is.A lu.W mg.A sp.W ua.W)
quick=no
if [ "${1:-}" = --quick ]; then
    quick=yes
    shift
fi
[ $# -eq 0 ] || programs=("$@")
cores=$(env -u OMP_NUM_THREADS nproc) # which obeys it
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-4} OMP_WAIT_POLICY=passive

bin=${COHABIT_NPB:-}/bin
if [ ! -x "$bin/${programs[0]}" ]; then
    echo "bench: no NAS Parallel Benchmarks in COHABIT_NPB='${COHABIT_NPB:-}'" >&2
    echo "  set it to a tree of NPB 3.3-OMP whose bin/ has: ${programs[*]}" >&2
    exit 1
fi
grinder=(valgrind --tool=cachegrind --cachegrind-out-file=/dev/null)
if [ $quick = yes ] || ! command -v valgrind >/dev/null; then
    echo "cachegrind is left out" >&2
    grinder=()
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# CPU seconds (user and system, children included) of a command that has to verify.
cpu_seconds() {
    local TIMEFORMAT='%U %S'
    if ! { time "$@" >"$work/out" 2>"$work/err"; } 2>"$work/time" ||
        ! grep -Eq 'Verification *= *SUCCESSFUL' "$work/out"; then
        tail -n 20 "$work/out" "$work/err" >&2
        echo "bench: did not run or did not verify: $*" >&2
        return 1
    fi
    awk '{ printf "%.2f\n", $1 + $2 }' "$work/time"
}

ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }

echo "$cores cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $OMP_NUM_THREADS threads, $(date -u +%F)"
echo
echo "| program | native, CPU s | cohabit | over native | cachegrind | over native |"
echo "|---|---|---|---|---|---|"
for program in "${programs[@]}"; do
    native=$(cpu_seconds "$bin/$program")
    profiled=$(cpu_seconds "$cohabit" profile -o "$work/p.npz" -- "$bin/$program")
    slowdown=$(ratio "$profiled" "$native")
    echo "$slowdown" >>"$work/slowdowns"
    ground=- ground_slowdown=-
    if [ ${#grinder[@]} -gt 0 ]; then
        ground=$(cpu_seconds "${grinder[@]}" "$bin/$program")
        ground_slowdown=$(ratio "$ground" "$native")
        echo "$ground_slowdown" >>"$work/ground"
    fi
    echo "| $program | $native | $profiled | $slowdown | $ground | $ground_slowdown |"
done
geometric_mean() { awk '{ sum += log($1) } END { printf "%.2f", exp(sum / NR) }' "$1"; }
means="| geometric mean | | | $(geometric_mean "$work/slowdowns") | |"
[ ${#grinder[@]} -eq 0 ] || means+=" $(geometric_mean "$work/ground")"
echo "$means |"

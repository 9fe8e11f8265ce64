#!/usr/bin/env bash
# The papers' experiments on what is small: our own kernels, and NPB class S where COHABIT_NPB names a tree with bin/mg.S and others
# (IS and MG; COHABIT_NPB_PROGRAMS names more), one machine a paper, 8 tasks, 5 draws. What has run is kept below the first
# argument (build/experiments), and not run again.
#
#   [COHABIT_NPB=.../NPB3.0-omp-C] [COHABIT_NPB_PROGRAMS="is mg lu"] scripts/experiments-quick.sh [DIRECTORY]
set -euo pipefail
cd "$(dirname "$0")/.."

cohabit=${COHABIT:-target/release/cohabit}
to=${1:-build/experiments}
threads=$(nproc)
own=(--program synthetic:ring:8:16:4 --program synthetic:distant:8:16:4 --program synthetic:all:8:16:4)
suite=()
if [ -d "${COHABIT_NPB:-}/bin" ]; then
    suite=(--npb-omp "$COHABIT_NPB/bin")
    for program in ${COHABIT_NPB_PROGRAMS:-is mg}; do
        suite+=(--program "$program")
    done
else
    echo "experiments: no NAS Parallel Benchmarks in COHABIT_NPB='${COHABIT_NPB:-}': our own kernels alone" >&2
fi
mkdir -p "$to"
# The recordings are the same for all.
run() {
    "$cohabit" experiment "$@" "${own[@]}" "${suite[@]}" --recordings "$to/recordings" --threads "$threads" \
        --draws 5 -o "$to/$1" --page "$to/$1.md"
}
run tlb2012 --machine harpertown
run deloc2020 --machine purple --tasks 8
run beyond --machine harpertown

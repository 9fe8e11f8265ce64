#!/usr/bin/env bash
# The papers' experiments on what is small: made-up recordings whose communication is known, and NPB class S where COHABIT_NPB
# names a tree with bin/mg.S and others (IS and MG; COHABIT_NPB_PROGRAMS names more); one machine a paper, 5 draws. What has run is
# kept below the first argument (build/experiments), and not run again. Ends with status 1 where a known direction did not come out.
#
#   [COHABIT_NPB=.../NPB3.0-omp-C] [COHABIT_NPB_PROGRAMS="is mg lu"] scripts/experiments-quick.sh [DIRECTORY]
set -euo pipefail
cd "$(dirname "$0")/.."

cohabit=${COHABIT:-target/release/cohabit}
to=${1:-build/experiments}
suite=()
if [ -n "${COHABIT_NPB:-}" ] && [ -d "$COHABIT_NPB/bin" ]; then
    suite=(--npb-omp "$COHABIT_NPB/bin")
    for program in ${COHABIT_NPB_PROGRAMS:-is mg}; do
        suite+=(--program "$program")
    done
else
    echo "experiments: no NAS Parallel Benchmarks in COHABIT_NPB='${COHABIT_NPB:-}': made-up recordings alone" >&2
fi
mkdir -p "$to"
# The recordings are the same for all. One cell at a time: all of them would want memory for the largest recording.
run() {
    local name=$1 machine=$2 tasks=$3 kind own=()
    for kind in ring distant all; do
        own+=(--program "synthetic:$kind:$tasks:16:4")
    done
    echo "experiments: $name, $tasks tasks on $machine" >&2
    "$cohabit" --quiet experiment "$name" --machine "$machine" --tasks "$tasks" "${own[@]}" "${suite[@]}" \
        --recordings "$to/recordings" --threads "$(nproc)" --draws 5 --caches unscaled \
        -o "$to/$name" --page "$to/$name.md" --json "$to/$name.json" > "$to/$name.txt"
}
run tlb2012 harpertown 8
run beyond harpertown 8
run cdsm2015 xeon32 32
run complace purple 56
run deloc2020 purple 56
benches/directions.py "$to"

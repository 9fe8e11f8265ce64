#!/usr/bin/env bash
# Compares the decomposition of collectives (native/mpi/decompose.c) with what MPICH really sends: the same workloads
# linked with MPICH's static library, its internal send functions being counted (workloads/mpi/mpich_internals.c).
#
#   scripts/mpich-collectives.sh [RANKS]...        default: 2 3 4 5 7 8 12 16; needs libmpich-dev and a built tree
set -euo pipefail
cd "$(dirname "$0")/.."

cohabit=${COHABIT:-target/release/cohabit}
patterns=build/workloads/mpi/patterns-mpich
ranks=("$@")
[ $# -gt 0 ] || ranks=(2 3 4 5 7 8 12 16)
archive=$(find /usr/lib -name libmpich.a 2>/dev/null | head -n 1)
[ -n "$archive" ] || { echo "skipped: there is no libmpich.a (Debian package libmpich-dev)"; exit 0; }
shared=${archive%.a}.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

wraps=()
for name in Send Ssend Isend Issend Sendrecv Sendrecv_replace; do wraps+=("-Wl,--wrap=MPIC_$name"); done
libraries=()
while read -r name; do libraries+=("-l:$name"); done < <(readelf -d "$shared" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p')
include=$(mpicc.mpich -show | grep -o -- '-I[^ ]*' | head -n 1)
# shellcheck disable=SC2086
gcc -O1 -w -std=gnu11 -D_GNU_SOURCE $include -o "$work/internals" workloads/mpi/{main,messages,groups,collectives,mpich_internals}.c \
    "${wraps[@]}" "$archive" "${libraries[@]}"

# Rows `source destination messages bytes` of all ranks of a run, what MPI_Init and MPI_Finalize send left out.
internals() {
    rm -f "$work"/i.* "$work"/b.*
    MPICH_INTERNALS=$work/i mpirun.mpich -n "$1" "$work/internals" "$2" --rounds 2
    MPICH_INTERNALS=$work/b mpirun.mpich -n "$1" "$work/internals" ring --rounds 0
    cat "$work"/b.* | awk '{ print $1, $2, -$3, -$4 }' | cat - "$work"/i.* |
        awk '{ m[$1 " " $2] += $3; b[$1 " " $2] += $4 } END { for (p in m) if (m[p] || b[p]) print p, m[p], b[p] }' | sort
}

ours() {
    "$cohabit" profile -o "$work/p.npz" -- mpirun.mpich -n "$1" "$patterns" "$2" --rounds 2
    python3 - "$work/p.npz" <<'PYTHON' | sort
import sys, numpy
p = numpy.load(sys.argv[1])
for s, d in zip(*numpy.nonzero(p["messages"])):
    print(s, d, p["messages"][s, d], p["bytes"][s, d])
PYTHON
}

failed=0 compared=0
for pattern in barrier bcast gather scatter allgather alltoall alltoall_in_place reduce allreduce reduce_scatter_block scan exscan \
    ibarrier ibcast iallreduce iallgather ialltoall ireduce igather iscatter gatherv scatterv allgatherv reduce_scatter alltoallv alltoallw; do
    for count in "${ranks[@]}"; do
        internals "$count" $pattern >"$work/real"
        ours "$count" $pattern >"$work/decomposed"
        compared=$((compared + 1))
        if ! cmp -s "$work/real" "$work/decomposed"; then
            echo "differs: $pattern on $count ranks"
            diff "$work/real" "$work/decomposed" | head -n 4
            failed=$((failed + 1))
        fi
    done
done
echo "$compared compared, $failed differ"
[ $failed -eq 0 ]

#!/usr/bin/env bash
# What observing MPI ranks costs, as Markdown tables for benches/mpi.md: CPU ns a message of a rank with itself
# (Irecv, Send, Wait: it waits for nobody, so that a busy machine does not show), ns a message on a ping-pong of two ranks, and LAMMPS (Debian package lammps), natively, with cohabit's library alone, with Open MPI's monitoring alone,
# and with both (what `cohabit profile` does). Runs alternate; medians of ROUNDS (default 9). VARIANTS="native library" leaves
# out the others; native comes first. With the words messages or lammps only one of the two parts.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-9}
native=$PWD/build/native
workloads=$PWD/build/workloads/mpi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

command -v mpirun.openmpi >/dev/null || { echo "bench: no mpirun.openmpi; run 'make setup'" >&2; exit 1; }

median() { sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

observed=(-x "COHABIT_MPI_PARTS=$work/parts" -x COHABIT_MPI_WINDOW_NS=1000000 -x COHABIT_MPI_ROUNDS=1 -x COHABIT_MPI_TRACE=1)
library=(-x "LD_PRELOAD=$native/libcohabit-mpi-openmpi.so" "${observed[@]}")
monitoring=(--mca pml_monitoring_enable 2 --mca pml_monitoring_enable_output 3 --mca pml_monitoring_filename "$work/m")
read -ra variants <<<"${VARIANTS:-native library monitoring both}"
options() {
    case $1 in
    native) words=() ;;
    library) words=("${library[@]}") ;;
    monitoring) words=("${monitoring[@]}") ;;
    both) words=("${library[@]}" "${monitoring[@]}") ;;
    esac
}

# measure RANKS BYTES COLUMN NAME: a row; the column of what the ping-pong prints.
measure() {
    local ranks=$1 bytes=$2 column=$3 variant messages=1000000
    [ "$bytes" -lt 10000 ] || messages=100000
    for ((round = 0; round < rounds; round++)); do
        for variant in "${variants[@]}"; do
            options "$variant"
            mpirun.openmpi -n "$ranks" --bind-to core "${words[@]}" "$workloads/pingpong-openmpi" "$bytes" $messages |
                awk -v c="$column" '{ print $c }' >>"$work/$ranks.$bytes.$variant"
        done
    done
    local row="| $4 |"
    for variant in "${variants[@]}"; do row="$row $(median <"$work/$ranks.$bytes.$variant") |"; done
    echo "$row"
}

header() {
    printf '| %s |' "$1" "${variants[@]}" | sed 's/||/|/g'
    printf '\n|---|%s\n' "$(printf -- '---|%.0s' "${variants[@]}")"
}

messages() {
    header 'ns a message'
    measure 1 8 4 "Open MPI, itself, 8 bytes, CPU"
    measure 1 1024 4 "Open MPI, itself, 1,024 bytes, CPU"
    if command -v mpirun.mpich >/dev/null; then
        for ((round = 0; round < rounds; round++)); do
            mpirun.mpich -n 1 "$workloads/pingpong-mpich" 8 1000000 | awk '{ print $4 }' >>"$work/mpich.native"
            mpirun.mpich -n 1 -genv LD_PRELOAD "$native/libcohabit-mpi-mpich.so" -genv COHABIT_MPI_PARTS "$work/parts" \
                -genv COHABIT_MPI_WINDOW_NS 1000000 -genv COHABIT_MPI_ROUNDS 1 -genv COHABIT_MPI_TRACE 1 \
                "$workloads/pingpong-mpich" 8 1000000 | awk '{ print $4 }' >>"$work/mpich.library"
        done
        row='| MPICH, itself, 8 bytes, CPU |'
        for variant in "${variants[@]}"; do
            case $variant in native | library) row="$row $(median <"$work/mpich.$variant") |" ;; *) row="$row - |" ;; esac
        done
        echo "$row"
    fi
    if [ "$(nproc)" -gt 1 ]; then
        measure 2 8 1 "Open MPI, two ranks, 8 bytes, wall"
        measure 2 65536 1 "Open MPI, two ranks, 65,536 bytes, wall"
    fi
}

lammps() {
    local lammps
    lammps=$(command -v lmp || true)
    if [ -z "$lammps" ]; then
        echo "skipped: LAMMPS is not installed (Debian package lammps)" >&2
        return
    fi
    cat >"$work/melt.lmp" <<INPUT
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 12 0 12 0 12
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neigh_modify every 20 delay 0 check no
fix 1 all nve
run ${LAMMPS_STEPS:-400}
INPUT
    # CPU seconds of all ranks: wall time is the machine's other work too.
    for ((round = 0; round < rounds; round++)); do
        for variant in "${variants[@]}"; do
            options "$variant"
            TIMEFORMAT='%U %S'
            { time mpirun.openmpi -n 2 --bind-to core --mca mpi_yield_when_idle 1 "${words[@]}" "$lammps" -log none -in "$work/melt.lmp" >"$work/out" 2>"$work/err"; } 2>"$work/time"
            awk '{ print $1 + $2 }' "$work/time" >>"$work/lammps.$variant"
            sed -n 's/^Loop time of \([0-9.]*\).*/\1/p' "$work/out" >>"$work/loop.$variant"
        done
    done
    echo
    header 'LAMMPS, 2 ranks'
    for what in lammps loop; do
        base=$(median <"$work/$what.native")
        row="| $([ $what = lammps ] && echo CPU s || echo loop s) |"
        for variant in "${variants[@]}"; do
            value=$(median <"$work/$what.$variant")
            row="$row $value ($(awk -v a="$value" -v b="$base" 'BEGIN { printf "%+.1f %%", 100 * (a / b - 1) }')) |"
        done
        echo "$row"
    done

    # The ratio of each run to the native one beside it, with a 95 % interval (bootstrap of the pairs).
    for variant in "${variants[@]:1}"; do
        paste "$work/loop.native" "$work/loop.$variant" | python3 -c "
import random, statistics, sys
ratios = [float(other) / float(native) for native, other in map(str.split, sys.stdin)]
drawn = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(4000))
low, middle, high = (100 * (value - 1) for value in (drawn[100], statistics.median(ratios), drawn[3899]))
print(f'loop, $variant: {middle:+.1f} % ({low:+.1f} to {high:+.1f}), {len(ratios)} pairs')"
    done
}

parts=("$@")
[ $# -gt 0 ] || parts=(messages lammps)
for part in "${parts[@]}"; do
    case $part in
    messages | lammps) "$part" ;;
    *) echo "bench: messages or lammps, not $part" >&2; exit 2 ;;
    esac
done

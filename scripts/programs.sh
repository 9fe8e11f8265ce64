#!/usr/bin/env bash
# Real programs under 'cohabit profile': each runs natively and profiled, and has to end with the same status and the
# same answer. Prints a row of a Markdown table for each; what is not installed is skipped aloud.
#
#   scripts/programs.sh                    every program below
#   scripts/programs.sh npb CLASS THREADS  the NAS Parallel Benchmarks (OpenMP), verified by themselves
#   scripts/programs.sh PROGRAM            one of: x264 gromacs lammps go numpy java topology map
#
# COHABIT_NPB names a tree of NPB 3.3-OMP with bin/cg.S and so on (they are not ours to ship), COHABIT the binary to test.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

cohabit=${COHABIT:-$PWD/target/release/cohabit}
inputs=$PWD/testdata/programs
limit_seconds=${COHABIT_LIMIT:-300} # of each run
cores=$(nproc)                      # before the variable below, which it obeys
export OMP_NUM_THREADS=4 OPENBLAS_NUM_THREADS=4 OMP_WAIT_POLICY=passive
failures=0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

skip() { echo "skipped: $*"; }

# Whether these commands are there; skips the program, aloud, where one is not.
need() {
    local program=$1 command
    shift
    for command in "$@"; do
        # Not 'command -v': functions here have programs' names.
        type -P "$command" >/dev/null || { skip "$program: no '$command' here" && return 1; }
    done
}

# Runs a command in a folder of its own; leaves its streams, status and CPU seconds (user and system) there.
run_in() {
    local folder=$1 TIMEFORMAT='%U %S'
    shift
    mkdir -p "$folder"
    { time (cd "$folder" && timeout "$limit_seconds" "$@" >out 2>err </dev/null; echo $? >status); } 2>"$folder/time"
    # The last line: the shell may say before it that the program was killed.
    awk 'END { printf "%.2f\n", $1 + $2 }' "$folder/time" >"$folder/cpu"
}

# What differs between the native and the profiled run; nothing where all is well.
differences() {
    local answer=$1 native profiled
    native=$(cat native/status) profiled=$(cat profiled/status)
    [ "$native" = 0 ] || echo "native status $native"
    [ "$profiled" = "$native" ] || echo "profiled status $profiled"
    native=$(cd native && eval "$answer") profiled=$(cd profiled && eval "$answer")
    [ -n "$native" ] || echo "no native answer"
    [ "$profiled" = "$native" ] || echo "another answer"
    grep -q '"exact": true' profiled/said.json || echo "the profile is not exact"
}

# compare NAME VERSION THREADS ANSWER COMMAND...: ANSWER is a shell command that prints the answer from what the run left
# in its folder, 'out' being its standard output.
compare() {
    local name=$1 version=$2 threads=$3 answer=$4 wrong slowdown
    shift 4
    rm -rf native profiled
    run_in native "$@"
    run_in profiled "$cohabit" profile -o profile.npz --json said.json -- "$@"
    wrong=$(differences "$answer" | paste -sd , | sed 's/,/, /g')
    slowdown=$(awk -v n="$(cat native/cpu)" -v p="$(cat profiled/cpu)" 'BEGIN { print n < 0.1 ? "-" : sprintf("%.1f", p / n) }')
    echo "| $name | $version | $threads | ${wrong:-same answer} | $(cat native/cpu) | $(cat profiled/cpu) | $slowdown |"
    if [ -n "$wrong" ]; then
        failures=$((failures + 1))
        tail -n 20 native/{out,err} profiled/{out,err} >&2
    fi
}

x264() {
    need x264 x264 || return 0
    # Any bytes are a video without a header: 12 frames of 320 x 176.
    head -c $((12 * 320 * 176 * 3 / 2)) "$cohabit" >video.raw
    compare x264 "$(command x264 --version | awk 'NR == 1 { print $2 }')" 4 'sha256sum video.264' \
        x264 --quiet --threads 4 --demuxer raw --input-res 320x176 --fps 25 -o video.264 ../video.raw
}

gromacs() {
    need gromacs gmx || return 0
    local share
    share=$(gmx --version 2>/dev/null | sed -n 's/^Data prefix: *//p')/share/gromacs/top
    cp "$inputs"/water.{mdp,top} .
    if ! gmx -quiet grompp -f water.mdp -c "$share/spc216.gro" -p water.top -o water.tpr >grompp.log 2>&1; then
        skip "gromacs: grompp cannot prepare the run: $(tail -n 1 grompp.log)"
        return 0
    fi
    compare gromacs "$(gmx --version 2>/dev/null | sed -n 's/^GROMACS version: *//p')" 4 'sha256sum water.gro' \
        gmx -quiet mdrun -s ../water.tpr -ntmpi 1 -ntomp 4 -pin off -notunepme -reprod -deffnm water
}

lammps() {
    need lammps lmp || return 0
    local about
    about=$(lmp -h 2>/dev/null)
    if ! grep -qw OPENMP <<<"$about"; then
        skip "lammps: 'lmp' here has no threads (its package OPENMP; Debian's is built for MPI alone)"
        return 0
    fi
    compare lammps "$(grep -o -m 1 '[0-9]* [A-Z][a-z]* 20[0-9]*' <<<"$about" | head -n 1)" 4 "sed -n '/^ *Step/,/^Loop/{/^Loop/!p}' out" \
        lmp -log none -sf omp -pk omp 4 -in "$inputs/argon.lmp"
}

go() {
    need go go || return 0
    if ! command go build -o answer "$inputs/answer.go" 2>build.log; then
        skip "go: cannot build: $(tail -n 1 build.log)"
        return 0
    fi
    compare go "$(command go env GOVERSION)" "$cores" 'cat out' ../answer
}

numpy() {
    # The first that has NumPy: one that a version manager puts before the system's may not.
    local python
    for python in $(type -ap python3); do
        "$python" -c 'import numpy' 2>/dev/null && break
        python=
    done
    if [ -z "${python:-}" ]; then
        skip "numpy: no python3 with NumPy here"
        return 0
    fi
    compare numpy "$("$python" -c 'import numpy, sys; print(sys.version.split()[0], numpy.__version__)')" 4 'cat out' \
        "$python" "$inputs/answer.py"
}

java() {
    need java java javac || return 0
    javac -d . "$inputs/Answer.java" || return
    compare java "$(command java --version | head -n 1)" 4 'cat out' java -cp .. Answer
}

topology() { compare 'cohabit topology' '' 1 'cat out' "$cohabit" topology 'pack:2 core:4 pu:2'; }

map() {
    awk 'BEGIN { for (i = 0; i < 12; i++) for (j = 0; j < 12; j++) printf "%d%s", i == j ? 0 : i * j % 7, j < 11 ? "," : "\n" }' >m.csv
    "$cohabit" import m.csv -o m.npz >import.log || return
    compare 'cohabit map' '' "$cores" 'cat out map.json' \
        "$cohabit" map ../m.npz --topology 'pack:2 core:4 pu:2' --steps 50 -o map.json
}

npb() {
    local class=$1 threads=$2 program team found=no
    for program in bt cg ep ft is lu mg sp ua; do
        [ -x "${COHABIT_NPB:-}/bin/$program.$class" ] || continue
        found=yes team=$threads
        # LU's threads spin for one another without ever sleeping: beyond the cores it takes minutes natively too.
        [ "$program" != lu ] || [ "$threads" -le "$cores" ] || team=$cores
        OMP_NUM_THREADS=$team compare "$program.$class" 'NPB 3.3' "$team" 'grep -E "Verification +=" out' \
            "$COHABIT_NPB/bin/$program.$class"
    done
    [ "$found" = yes ] || skip "npb $class $threads: no programs of class $class in COHABIT_NPB='${COHABIT_NPB:-}'"
}

# Each program in a folder of its own.
try() {
    mkdir -p "$work/$1" && cd "$work/$1" || exit
    "$@" || { echo "programs: $* could not be prepared" >&2; failures=$((failures + 1)); }
}

echo "| program | version | threads | outcome | native, CPU s | profiled, CPU s | over native |"
echo "|---|---|---|---|---|---|---|"
case $* in
'')
    for program in x264 gromacs lammps go numpy java topology map; do try "$program"; done
    for class in S W; do for threads in 4 32; do try npb "$class" "$threads"; done; done
    ;;
'npb '[A-Z]' '[1-9]*) try "$@" ;;
x264 | gromacs | lammps | go | numpy | java | topology | map) try "$1" ;;
*)
    sed -n '5,7s/^# *//p' "$0" >&2
    exit 2
    ;;
esac
[ "$failures" = 0 ]

# What the tests of the emulated machine share; each begins with `. scripts/guest/lib.sh`.
failures=0

# is NAME EXPECTED FOUND: one line that says whether they are the same. Found lines may come in any order.
is() {
    found=$(printf '%s\n' "$3" | sort -n)
    if [ "$2" = "$found" ]; then
        echo "ok $1"
    else
        failures=$((failures + 1))
        echo "not ok $1"
        printf 'expected:\n%s\nfound:\n%s\n' "$2" "$found" | sed 's/^/    /'
    fi
}

# The placement that tests ask for: task i of 8 on PU (3 i + 5) mod 8, so that none is where it would be by default.
placed() {
    for task in 0 1 2 3 4 5 6 7; do
        echo "$task $(((3 * task + 5) % 8))"
    done
}

# The same as options of `cohabit map`.
pins() { placed | sed 's/\(.*\) \(.*\)/--pin \1=\2/'; }

# mapped KIND ARGUMENT...: maps tasks of this kind (threads, processes or ranks) to where `placed` says.
mapped() {
    kind=$1
    shift
    placed | sed "s/.*/$(placed | sed 's/.*/0/' | paste -sd ,)/" >/tmp/matrix.csv
    cohabit import /tmp/matrix.csv --kind "$kind" -o /tmp/p.npz >/tmp/log 2>&1 &&
        cohabit map /tmp/p.npz $(pins) "$@" >>/tmp/log 2>&1 ||
        { cat /tmp/log; exit 1; }
}

# From here on hwloc, and so cohabit and every launcher that asks it, sees PUs whose numbers go across the packages: the
# logical order is 0 4 1 5 2 6 3 7. Binding is real.
interleaved() { export HWLOC_XMLFILE="$PWD/scripts/guest/interleaved.xml" HWLOC_THISSYSTEM=1; }

# From here on PU 0 is not allowed; `placed` is about seven tasks then.
without_pu_0() {
    echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
    mkdir -p /sys/fs/cgroup/part
    echo 1-7 >/sys/fs/cgroup/part/cpuset.cpus
    echo $$ >/sys/fs/cgroup/part/cgroup.procs
    placed() { for task in 0 1 2 3 4 5 6; do echo "$task $((7 - task))"; done; }
}

# The end of each test.
finish() { exit "$((failures > 0))"; }

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

# mapped KIND ARGUMENT...: maps 8 tasks of this kind (threads, processes or ranks) to where `placed` says.
mapped() {
    kind=$1
    shift
    for task in 0 1 2 3 4 5 6 7; do echo 0,0,0,0,0,0,0,0; done >/tmp/matrix.csv
    cohabit import /tmp/matrix.csv --kind "$kind" -o /tmp/p.npz >/tmp/log 2>&1 &&
        cohabit map /tmp/p.npz $(pins) "$@" >>/tmp/log 2>&1 ||
        { cat /tmp/log; exit 1; }
}

# The end of each test.
finish() { exit "$((failures > 0))"; }

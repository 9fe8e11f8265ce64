# The machine as cohabit sees it: two packages, each a NUMA node, of two cores of two threads; the firmware's distance.
. scripts/guest/lib.sh
cohabit topology >/tmp/topology || exit 1
is "packages, NUMA nodes, cores and PUs" "8 PUs, 4 cores, 2 NUMA nodes, 2 packages" "$(sed -n '1s/^distance *//p' /tmp/topology)"
is "the firmware's NUMA distance" "21 machine" "$(sed -n 's/^ *\([0-9]*\) *machine/\1 machine/p' /tmp/topology)"
is "the PUs of each package" "0-3
4-7" "$(sed -n 's/.*package.*P# //p' /tmp/topology)"
finish

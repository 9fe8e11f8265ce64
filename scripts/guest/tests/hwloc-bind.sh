# The script that pins the threads of a process that runs, with hwloc-bind.
# needs: build/workloads/placement/threads hwloc-bind
. scripts/guest/lib.sh
mapped threads --export hwloc-bind=/tmp/pin
mkfifo /tmp/input /tmp/output
build/workloads/placement/threads 8 wait </tmp/input >/tmp/output &
exec 8>/tmp/input 9</tmp/output
read -r _ pid <&9
sh /tmp/pin "$pid" || exit 1
exec 8>&-
is "threads that hwloc-bind pins as they run" "$(placed)" "$(cat <&9)"
finish

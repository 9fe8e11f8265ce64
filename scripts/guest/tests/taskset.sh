# The script that pins the threads of a process that runs, with util-linux's taskset.
# needs: build/workloads/placement/threads taskset
. scripts/guest/lib.sh
mapped threads --export taskset=/tmp/pin
mkfifo /tmp/input /tmp/output
build/workloads/placement/threads 8 wait </tmp/input >/tmp/output &
exec 8>/tmp/input 9</tmp/output
read -r _ pid <&9
sh /tmp/pin "$pid" || exit 1
exec 8>&-
is "threads that taskset pins as they run" "$(placed)" "$(cat <&9)"
finish

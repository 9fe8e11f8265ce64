# likwid-pin with the exported list: POSIX threads in the order they are started.
# needs: likwid-pin lua5.3 bash /lib/x86_64-linux-gnu/libpthread.so.0 /usr/share/lua/likwid.lua /usr/lib/x86_64-linux-gnu/liblikwid* build/workloads/placement/threads
. scripts/guest/lib.sh
mapped threads --export likwid-pin=/tmp/pin
is "threads under likwid-pin" "$(placed)" "$(sh /tmp/pin build/workloads/placement/threads 8)"
finish

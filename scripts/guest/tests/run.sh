# cohabit run: each of eight threads on the PU of the mapping, as the threads see it themselves.
# needs: build/workloads/placement/threads
. scripts/guest/lib.sh
threads=build/workloads/placement/threads
mapped threads -o /tmp/m.json
is "threads of a mapping" "$(placed)" "$(cohabit run --mapping /tmp/m.json -- $threads 8)"
is "threads of a profile, the same again" "$(placed)" \
    "$(cohabit run --profile /tmp/p.npz $(pins) -- $threads 8)"
is "without cohabit they may run anywhere" "8 0,1,2,3,4,5,6,7" "$($threads 8 | awk '{ n[$2]++ } END { for (l in n) print n[l], l }')"
finish

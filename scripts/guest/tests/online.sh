# Online: the kernel's hint faults on two NUMA nodes, threads moved across them, and everything put back.
# needs: build/workloads/patterns-pthreads build/workloads/turns build/workloads/copies build/native/cohabit.bpf.o build/native/libcohabit_agent.so
. scripts/guest/lib.sh
export COHABIT_LIBDIR=/srv/cohabit/build/native
patterns=build/workloads/patterns-pthreads
settings() {
    cat /proc/sys/kernel/numa_balancing
    for name in scan_delay_ms scan_period_min_ms scan_period_max_ms; do cat /sys/kernel/debug/sched/numa_balancing/$name; done
}
# In a huge page a fault stands for 2 MiB, which is all of this program's memory.
echo madvise >/sys/kernel/mm/transparent_hugepage/enabled
# As many threads as PUs, on 128 KiB for each PU each (eight: a MiB), in pairs that are half of them apart: i and i + 4 of eight.
pus=$(nproc) half=$(($(nproc) / 2))
program="$patterns pairs-far --threads $pus --rounds 1000000 --blocks $((2048 * pus)) --block 64 --expect /dev/null"
before=$(settings)

# Emulated, what cohabit does itself takes many times as long as on a processor.
cohabit run --always --overhead 50 -o /tmp/p.npz --json /tmp/r.json -- $program >/tmp/out 2>/tmp/log &
run=$!
: >/tmp/affinities
# Where each thread of the program may run, in the order they were started in; and which of the pairs are on one node.
affinities() {
    pid=$(pidof patterns-pthreads) || return 0
    for task in $(ls /proc/$pid/task | sort -n); do sed -n 's/^Cpus_allowed_list:\t//p' /proc/$pid/task/$task/status; done >/tmp/affinities
}
together() {
    awk -v half=$half '{ pu[NR - 1] = $1 } function put(task) { return pu[task] ~ /^[0-9]+$/ }
        END { for (i = 0; i < half; i++) print i, put(i) && put(i + half) ? int(pu[i] / half) == int(pu[i + half] / half) : "unmoved" }' /tmp/affinities
}
# Emulated, on a machine that does other things too, this takes as long as it takes: until all pairs are together, and a
# while longer, so that what was moved back again would show; then the program is ended.
for second in $(seq $((30 * pus))); do
    sleep 1
    affinities
    together | grep -qv ' 1$' || break
done
sleep 10
affinities
kill -TERM $pid
wait $run
cat /tmp/log | sed 's/^/# /'; sed -n 's/^  "\(faults\|pages\|events\|samples\|own\)/# &/p' /tmp/r.json
is "eBPF shows page faults" "1" "$(grep -c 'watching page faults, by eBPF' /tmp/log)"
is "tasks were sampled" "1 0" "$(grep -c 'samples: ' /tmp/log) $(grep -c 'no samples' /tmp/log)"
samples=$(sed -n 's/^ *"samples_telling": \([0-9]*\).*/\1/p' /tmp/r.json)
is "samples told what they use" "yes" "$([ "${samples:-0}" -gt 100 ] && echo yes || echo "no: $samples")"
cohabit map /tmp/p.npz --export matrix-market=/tmp/p.mtx >/tmp/mapped 2>&1 || cat /tmp/mapped
# The size, and then task, task and events, tasks counted from 1, in each direction.
partners=$(awk '!/^%/ && size++ { between[$1, $2] += $3; between[$2, $1] += $3 }
    END { for (pair in between) { split(pair, task, SUBSEP); if (between[pair] > most[task[1]]) { most[task[1]] = between[pair]; at[task[1]] = task[2] } }
          for (i in at) print i - 1, at[i] - 1 }' /tmp/p.mtx | sort -n)
is "each thread's partner is the strongest" "$(seq 0 $((pus - 1)) | awk -v half=$half '{ print $1, ($1 + half) % (2 * half) }')" "$partners"
is "pairs are on one node each" "$(seq 0 $((half - 1)) | sed 's/$/ 1/')" "$(together)"
is "threads run where they were put" "$pus" "$(grep -cE '^[0-9]+$' /tmp/affinities)"
is "settings are as before" "$(echo "$before" | sort -n)" "$(settings)"

# Threads that wait in loops.
cohabit run --dry-run --overhead 50 --json /tmp/r.json -- build/workloads/turns 2 20 >/tmp/out 2>/tmp/log
sed 's/^/# /' /tmp/log; sed -n 's/^  "samples/# &/p' /tmp/r.json
is "threads took turns" "right" "$(cat /tmp/out)"
after=$(sed -n 's/^ *"samples_after_switches_telling": \([0-9]*\).*/\1/p' /tmp/r.json)
is "samples after switches told what they use" "yes" "$([ "${after:-0}" -gt 20 ] && echo yes || echo "no: $after")"

# Processes that copy from one another, 4 rounds of 100 times 64 KiB.
cohabit run --dry-run --faults none --json /tmp/r.json -- build/workloads/copies 4 100 65536 10000 >/tmp/out 2>/tmp/log
sed 's/^/# /' /tmp/log
is "processes copied" "right" "$(cat /tmp/out)"
is "what they copied was seen" "$((4 * 100 * 65536))" "$(sed -n 's/^ *"bytes_copied": \([0-9a-z]*\).*/\1/p' /tmp/r.json)"

cohabit run --always --faults hint -- $program >/tmp/out 2>/tmp/log &
run=$!
sleep 5
is "the scan rate was set" "1" "$(grep -c 'scan rate set' /tmp/log)"
is "NUMA balancing was turned on" "1" "$(cat /proc/sys/kernel/numa_balancing)"
kill -KILL $run
pid=$(pidof patterns-pthreads)
is "the program runs on" "1" "$(echo "$pid" | wc -w)"
cohabit restore | sed 's/^/# /'
is "settings are as before, after kill -9" "$(echo "$before" | sort -n)" "$(settings)"
is "affinities are as before, after kill -9" "0-$((pus - 1))" \
    "$(for task in /proc/$pid/task/*; do sed -n 's/^Cpus_allowed_list:\t//p' $task/status; done | sort -u)"
kill -KILL $pid
finish

# Every placement under every memory policy and with NUMA balancing on and off, which is put back afterwards.
# needs: taskset
. scripts/guest/lib.sh

cat >/tmp/program <<'END'
#!/bin/sh
case $(head -n 1 /proc/self/numa_maps) in *interleave:0-1*) policy=1 ;; *bind:*) policy=2 ;; *) policy=3 ;; esac
echo "is $policy$(cat /proc/sys/kernel/numa_balancing)"
sleep 0.05
END
chmod +x /tmp/program
echo 0 >/tmp/matrix.csv
cohabit import /tmp/matrix.csv -o /tmp/p.npz >/tmp/log 2>&1 && cohabit map /tmp/p.npz --mapper packed -o /tmp/m.json >>/tmp/log 2>&1 ||
    { cat /tmp/log; exit 1; }
before=$(cat /proc/sys/kernel/numa_balancing)
cohabit compare --mapping /tmp/m.json --pinning always --hold-main --memory first-touch --memory interleave --memory bind \
    --numa-balancing on --numa-balancing off --metric 'is ([0-9]+)' --runs 1 --warm-up 0 -o /tmp/kept.json --csv /tmp/runs.csv \
    -- /tmp/program >/tmp/log 2>&1 || { cat /tmp/log; exit 1; }
is "each arm has its memory policy and its NUMA balancing" "10 m, interleave, balancing off
10 system, interleave, balancing off
11 m, interleave, balancing on
11 system, interleave, balancing on
20 m, bind, balancing off
20 system, bind, balancing off
21 m, bind, balancing on
21 system, bind, balancing on
30 m, first-touch, balancing off
30 system, first-touch, balancing off
31 m, first-touch, balancing on
31 system, first-touch, balancing on" "$(sed -n 's/^0,"\(.*\)",false,\([0-9]*\),.*/\2 \1/p' /tmp/runs.csv)"
is "NUMA balancing is put back" "$before" "$(cat /proc/sys/kernel/numa_balancing)"
finish

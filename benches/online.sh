#!/usr/bin/env bash
# What online detection costs in CPU time: the program by itself, watched (--dry-run), and watched and moved (--always), in
# turns. Prints the mean of each and the difference to the first with its 95 % interval.
#
#   benches/online.sh [ROUNDS] [-- CMD...]      default: 10 rounds of a stencil of this tree
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-10}
[ "${1:-}" = -- ] && rounds=10 || shift || true
[ "${1:-}" = -- ] && shift
if [ $# -eq 0 ]; then
    set -- build/workloads/patterns-pthreads stencil-2d --threads 4 --rounds 1500 --blocks 65536 --block 64 --expect /dev/null
fi
cohabit=${COHABIT:-target/release/cohabit}
exec python3 - "$cohabit" "$rounds" "$@" <<'PYTHON'
import os, subprocess, sys, statistics
cohabit, rounds, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
ways = {
    "alone": command,
    "watched": [cohabit, "run", "--dry-run", "--"] + command,
    "watched and moved": [cohabit, "run", "--always", "--"] + command,
}
def cpu(line):
    """CPU seconds of a command and all that it started and waited for."""
    before = os.times()
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system
cpu(ways["alone"])
times = {way: [] for way in ways}
for _ in range(rounds):
    for way, line in ways.items():
        times[way].append(cpu(line))
print(f"{'':20}{'CPU s':>10}  over alone, 95 % interval ({rounds} rounds)")
for way, seconds in times.items():
    ratios = [100 * (mine / alone - 1) for mine, alone in zip(seconds, times["alone"])]
    spread = 2.26 * statistics.stdev(ratios) / rounds ** 0.5 if rounds > 1 else float("nan")
    print(f"{way:20}{statistics.mean(seconds):10.3f}  {statistics.mean(ratios):+.2f} % +- {spread:.2f}")
PYTHON

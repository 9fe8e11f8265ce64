#!/usr/bin/env bash
# What online detection costs in CPU time: a program by itself, watched (--dry-run), and watched and moved (--always). Prints
# each way's cost over the program by itself with its 95 % interval, as fine as it gets within the time given.
#
#   benches/online.sh [--seconds S] [--resolution PERCENT] [-- CMD...]
#
# Design: what is to be resolved (1 %) is less than what two runs differ by on a shared machine, so
# - the ways come in blocks, each way once, in an order drawn at random; only runs of one block are compared, so that what
#   changes slowly (clock rate, neighbours) is the same for both;
# - time is CPU time, user and system, of the program, cohabit and all they started, by wait4(2); what the eBPF program takes is
#   in the system time of the thread that faults, and is shown by itself too, from the kernel's own count
#   (kernel.bpf_stats_enabled, root; switched on for one run of its own, since counting costs);
# - the cost is the median of the blocks' ratios, its interval from the binomial distribution (no assumption on how
#   ratios are spread; one disturbed block moves it by a rank);
# - a block counts however it looks; the run ends when every interval is within +- PERCENT (default 1) or after S seconds
#   (default 3600), and says which.
# The program should take 10 s or more: the kernel scans no thread before it has used about a second of CPU time. By default it is
# a stencil of this tree with 4 threads; NPB is built by benches/run.sh.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
seconds=3600 resolution=1
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) seconds=$2; shift 2 ;;
    --resolution) resolution=$2; shift 2 ;;
    --) shift; break ;;
    *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
if [ $# -eq 0 ]; then
    set -- "$root"/build/workloads/patterns-pthreads stencil-2d --threads 4 --rounds 6000 --blocks 65536 --block 64 --expect /dev/null
fi
exec python3 - "${COHABIT:-$root/target/release/cohabit}" "$seconds" "$resolution" "$@" <<'PYTHON'
import json, math, os, random, statistics, subprocess, sys, tempfile, time

cohabit, seconds, resolution, command = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]
WAYS = {
    "alone": command,
    "watched": [cohabit, "run", "--dry-run", "--"] + command,
    "watched, moved": [cohabit, "run", "--always", "--"] + command,
}
BPF_STATS = "/proc/sys/kernel/bpf_stats_enabled"


def cpu_seconds(line):
    """Of a command and all that it started and waited for."""
    process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(line)}: status {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def interval(ratios):
    """The median and its 95 % interval, from ranks; none while there are too few."""
    values, count, below, rank = sorted(ratios), len(ratios), 0.0, 0
    while below + math.comb(count, rank) / 2**count <= 0.025:
        below += math.comb(count, rank) / 2**count
        rank += 1
    return statistics.median(values), (values[rank - 1], values[count - rank]) if rank else None


def percent(ratio):
    return f"{100 * (ratio - 1):+.2f} %"


def own_parts():
    """CPU seconds of one watched run by its parts: cohabit's own, and the eBPF programs'."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "r.json")
        before = open(BPF_STATS).read() if os.access(BPF_STATS, os.W_OK) else None
        try:
            if before is not None:
                open(BPF_STATS, "w").write("1")
            process = subprocess.Popen([cohabit, "run", "--dry-run", "--json", path, "--"] + command,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            bpf = 0
            while process.poll() is None:
                bpf = max(bpf, bpf_nanoseconds(process.pid))
                time.sleep(0.2)
        finally:
            if before is not None:
                open(BPF_STATS, "w").write(before.strip())
        document = json.load(open(path))
        return document, bpf / 1e9 if before is not None else None


def bpf_nanoseconds(pid):
    """What the eBPF programs of a process have taken so far, by its descriptors."""
    total, seen = 0, set()
    try:
        for name in os.listdir(f"/proc/{pid}/fdinfo"):
            fields = dict(line.split(":", 1) for line in open(f"/proc/{pid}/fdinfo/{name}") if ":" in line)
            identity = fields.get("prog_id", "").strip()
            if "run_time_ns" in fields and identity not in seen:
                seen.add(identity)
                total += int(fields["run_time_ns"])
    except OSError:
        pass
    return total


cpu_seconds(command)
blocks, began, reached = [], time.monotonic(), False
while not reached and time.monotonic() - began < seconds:
    order = list(WAYS)
    random.shuffle(order)
    blocks.append({way: cpu_seconds(WAYS[way]) for way in order})
    found = {way: interval([block[way] / block["alone"] for block in blocks]) for way in WAYS if way != "alone"}
    widths = [100 * (bounds[1] - bounds[0]) / 2 if bounds else math.inf for _, bounds in found.values()]
    reached = max(widths) <= resolution
print(f"{len(blocks)} blocks, {time.monotonic() - began:.0f} s; the program by itself: "
      f"{statistics.median(block['alone'] for block in blocks):.2f} s of CPU time")
for way, (median, bounds) in found.items():
    limits = f"{percent(bounds[0])} to {percent(bounds[1])}" if bounds else "too few blocks for an interval (6 at least)"
    print(f"{way:16} {percent(median)}   95 %: {limits}")
print(f"resolution of {resolution:g} % " + ("reached" if reached else "not reached: give it more --seconds, or a quieter machine"))
document, bpf = own_parts()
print(f"of one watched run of {document['seconds']:.1f} s: {document['faults']} faults, {document['pages_protected']} pages "
      f"protected; CPU time of cohabit itself {document['own_cpu_seconds']:.2f} s, of its eBPF programs "
      + (f"{bpf:.3f} s" if bpf is not None else "not known (root)"))
PYTHON

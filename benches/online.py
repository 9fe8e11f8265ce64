#!/usr/bin/env python3
"""What online detection costs in CPU time: a program by itself, watched (--dry-run), and watched and moved (--always).
Prints each way's cost over the program by itself with its 95 % interval, as fine as it gets within the time given.

    benches/online.py [--seconds S] [--resolution PERCENT] [-- CMD...]

How the ways are compared is said in blocks.py. CPU time is that of the program, cohabit and all they started; what the eBPF
programs take is in the system time of the thread that faults, and is shown by itself too, from the kernel's own count
(kernel.bpf_stats_enabled, root; switched on for one run of its own, since counting costs). The run ends when every
interval is within +- PERCENT (default 1) or after S seconds (default 3600), and says which.

The program should take 10 s or more: the kernel scans no thread before it has used about a second of CPU time. By
default it is a stencil of this tree with 4 threads; NPB is built as benches/run.sh says.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import tempfile
import time

from blocks import block, interval, percent, ratios, run

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COHABIT = os.environ.get("COHABIT", f"{ROOT}/target/release/cohabit")
STENCIL = "stencil-2d --threads 4 --rounds 6000 --blocks 65536 --block 64 --expect /dev/null"
BPF_STATS = "/proc/sys/kernel/bpf_stats_enabled"


def own_parts(command):
    """One watched run by its parts: what it says of itself, and the CPU seconds of the eBPF programs."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "r.json")
        before = None
        if os.access(BPF_STATS, os.W_OK):
            with open(BPF_STATS, encoding="ascii") as file:
                before = file.read().strip()
        try:
            set_bpf_stats("1" if before is not None else None)
            line = [COHABIT, "run", "--dry-run", "--json", path, "--"] + command
            with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                bpf = 0
                while process.poll() is None:
                    bpf = max(bpf, bpf_nanoseconds(process.pid))
                    time.sleep(0.2)
        finally:
            set_bpf_stats(before)
        with open(path, encoding="utf-8") as file:
            return json.load(file), bpf / 1e9 if before is not None else None


def set_bpf_stats(text):
    if text is not None:
        with open(BPF_STATS, "w", encoding="ascii") as file:
            file.write(text)


def bpf_nanoseconds(pid):
    """What the eBPF programs of a process have taken so far, by its descriptors."""
    total, seen = 0, set()
    try:
        for name in os.listdir(f"/proc/{pid}/fdinfo"):
            with open(f"/proc/{pid}/fdinfo/{name}", encoding="ascii") as file:
                fields = dict(line.split(":", 1) for line in file if ":" in line)
            identity = fields.get("prog_id", "").strip()
            if "run_time_ns" in fields and identity not in seen:
                seen.add(identity)
                total += int(fields["run_time_ns"])
    except OSError:
        pass  # It has ended.
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--resolution", type=float, default=1)
    parser.add_argument("command", nargs="*", metavar="CMD")
    arguments = parser.parse_args()
    command = arguments.command or [f"{ROOT}/build/workloads/patterns-pthreads"] + STENCIL.split()
    ways = {
        "alone": command,
        "watched": [COHABIT, "run", "--dry-run", "--"] + command,
        "watched, moved": [COHABIT, "run", "--always", "--"] + command,
    }
    run(command)
    blocks, began, reached = [], time.monotonic(), False
    while not reached and time.monotonic() - began < arguments.seconds:
        blocks.append(block(ways))
        found = {way: interval(ratios(blocks, "cpu", way, "alone")) for way in ways if way != "alone"}
        widths = [100 * (bounds[1] - bounds[0]) / 2 if bounds else math.inf for _, bounds in found.values()]
        reached = max(widths) <= arguments.resolution
    alone = statistics.median(found["alone"]["cpu"] for found in blocks)
    print(f"{len(blocks)} blocks, {time.monotonic() - began:.0f} s; the program by itself: {alone:.2f} s of CPU time")
    for way, (median, bounds) in found.items():
        limits = f"{percent(bounds[0])} to {percent(bounds[1])}" if bounds else "too few blocks for an interval (6 at least)"
        print(f"{way:16} {percent(median)}   95 %: {limits}")
    outcome = "reached" if reached else "not reached: give it more --seconds, or a quieter machine"
    print(f"resolution of {arguments.resolution:g} % {outcome}")
    document, bpf = own_parts(command)
    of_bpf = f"{bpf:.3f} s" if bpf is not None else "not known (root)"
    print(f"of one watched run of {document['seconds']:.1f} s: {document['faults']} faults, "
          f"{document['pages_protected']} pages protected; CPU time of cohabit itself {document['own_cpu_seconds']:.2f} s, "
          f"of its eBPF programs {of_bpf}")


if __name__ == "__main__":
    main()

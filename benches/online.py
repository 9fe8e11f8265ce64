#!/usr/bin/env python3
"""What online detection costs in CPU time: a program by itself, watched (--dry-run), and watched and moved (--always).
Prints each way's cost over the program by itself with its 95 % interval, as fine as it gets within the time given.

    benches/online.py [--seconds S] [--resolution PERCENT] [-- CMD...]
    benches/online.py [--seconds S] [--resolution PERCENT] --program NAME=CMD --program NAME=CMD ...

How the ways are compared is said in blocks.py. CPU time is that of the program, cohabit and all they started; what the eBPF
programs take is in the system time of the thread that faults, and is shown by itself too, from the kernel's own count
(kernel.bpf_stats_enabled, root; switched on for one run of its own, since counting costs). The run ends when every
interval is within +- PERCENT (default 1) or after S seconds (default 3600), and says which.

Of several programs there are rounds, a block of each; a row is printed for each program and one for the average over the programs,
of which each round gives one value. The run ends when the average's intervals are within the resolution.

A program should take 10 s or more: the kernel scans no thread before it has used about a second of CPU time. By
default it is a stencil of this tree with 4 threads; NPB is built as benches/run.sh says.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
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


def ways_of(command):
    return {
        "alone": command,
        "watched": [COHABIT, "run", "--dry-run", "--"] + command,
        "watched, moved": [COHABIT, "run", "--always", "--"] + command,
    }


def text(found):
    median, bounds = found
    limits = f"{percent(bounds[0])} to {percent(bounds[1])}" if bounds else "too few blocks for an interval (6 at least)"
    return f"{percent(median)} ({limits})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--resolution", type=float, default=1)
    parser.add_argument("--program", action="append", default=[], metavar="NAME=CMD")
    parser.add_argument("command", nargs="*", metavar="CMD")
    arguments = parser.parse_args()
    if arguments.program and arguments.command:
        parser.error("either --program or a command")
    command = arguments.command or [f"{ROOT}/build/workloads/patterns-pthreads"] + STENCIL.split()
    named = [program.partition("=") for program in arguments.program]
    programs = {name: shlex.split(line) for name, _, line in named} or {os.path.basename(command[0]): command}
    ways = {name: ways_of(command) for name, command in programs.items()}
    compared = [way for way in ways_of([]) if way != "alone"]
    for command in programs.values():
        run(command)
    # A dictionary of blocks by program for each round.
    rounds, began, reached = [], time.monotonic(), False
    while not reached and time.monotonic() - began < arguments.seconds:
        rounds.append({name: block(ways[name]) for name in programs})
        costs = {(name, way): ratios([found[name] for found in rounds], "cpu", way, "alone") for name in programs for way in compared}
        averages = {way: [statistics.mean(values) for values in zip(*(costs[name, way] for name in programs))] for way in compared}
        bounds = [interval(averages[way])[1] for way in compared]
        reached = all(found and 100 * (found[1] - found[0]) / 2 <= arguments.resolution for found in bounds)
        for name, found in rounds[-1].items():
            print(f"round {len(rounds)}: {name}: " + ", ".join(f"{way} {time['cpu']:.2f}" for way, time in found.items()), file=sys.stderr, flush=True)
    print(f"{len(rounds)} rounds, {time.monotonic() - began:.0f} s")
    print("| program | CPU s alone | watched, 95 % | watched and moved, 95 % | cohabit itself, s | eBPF, s | faults |")
    print("|---|---|---|---|---|---|---|")
    for name, command in programs.items():
        alone = statistics.median(found[name]["alone"]["cpu"] for found in rounds)
        document, bpf = own_parts(command)
        parts = f"{document['own_cpu_seconds']:.2f} | {f'{bpf:.3f}' if bpf is not None else 'not known (root)'} | {document['faults']}"
        print(f"| {name} | {alone:.2f} | " + " | ".join(text(interval(costs[name, way])) for way in compared) + f" | {parts} |")
    if len(programs) > 1:
        print("| average | | " + " | ".join(text(interval(averages[way])) for way in compared) + " | | | |")
    outcome = "reached" if reached else "not reached: give it more --seconds, or a quieter machine"
    print(f"resolution of {arguments.resolution:g} % {outcome}")


if __name__ == "__main__":
    main()

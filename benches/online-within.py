#!/usr/bin/env python3
"""What online detection costs in CPU time, compared within one run: cohabit is attached to a running OpenMP program for a
while, detached, attached again. Equal runs differ by percents on a shared machine, by where their memory lies above all;
parts of one run differ by less, so that single programs can be told to a percent.

    benches/online-within.py [--seconds S] [--slice S] [--warmup S] [--way "NAME=OPTIONS" ...] --program NAME=CMD [--program NAME=CMD ...]

While the program runs, after S seconds (default 2) in which it may get ready, parts without cohabit of S/2 seconds (default 5) and parts with it of S seconds (default 10) take
turns, watched (`attach --dry-run`) and moved (`attach --always`), or as --way says, in an order drawn at random. Of each part is known how much CPU time
the program used for an iteration (progress.c, preloaded, writes down parallel regions; an iteration is as many of them as it takes until the same
come again in the same order; where that never happens, as with a mesh that is refined, it is what lies between two calls of the rarest region that
begins twenty times and more in every part, whose work may differ from step to step, and that is said). What a part with cohabit cost is that, and the CPU time of cohabit itself with its
start, over the mean of the parts before and after it. Programs are run by turns, again and again, for S seconds of
wall time in all (default 600). Printed is what lies in the middle of the costs (Hodges and Lehmann's estimate: the median of the means of any
two) and its exact 95 % interval by Wilcoxon's signed ranks, which assume no more than that costs are spread evenly about it; for several programs their average, too, with
the interval from the standard errors of the programs' means.

The program must begin parallel regions by GNU's runtime (GOMP_parallel), again and again, and should run for 20 s and
more. Needs NumPy, a C compiler and COHABIT (default: target/release/cohabit).
"""

import argparse
import math
import os
import random
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from blocks import percent

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COHABIT = os.environ.get("COHABIT", f"{ROOT}/target/release/cohabit")
WAYS = {"watched": ["--dry-run"], "moved": ["--always"]}
MOST_A_PERIOD = 1000  # calls of the rarest region in an iteration
LEAST_A_PART = 20  # calls in each part of a region that stands for a step where none repeat
RECORD = np.dtype([("region", "u8"), ("cpu", "u8"), ("clock", "u8")])


def rest(program, until):
    """Waits; whether the program still runs then."""
    while time.monotonic() < until and program.poll() is None:
        time.sleep(0.02)
    return program.poll() is None


def attached(program, options, seconds):
    """cohabit attached for so many seconds; its own CPU seconds, or none where the program ended before."""
    until = time.monotonic() + seconds
    line = [COHABIT, "attach", *options, str(program.pid)]
    watcher = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    runs = rest(program, until)
    # Whether or not it has ended: nobody but wait4 may ask, or its times are lost.
    os.kill(watcher.pid, signal.SIGINT)
    said = watcher.stderr.read()
    _, status, usage = os.wait4(watcher.pid, 0)
    watcher.returncode = os.waitstatus_to_exitcode(status)
    if runs and watcher.returncode:
        sys.exit(f"{shlex.join(line)}: status {watcher.returncode}\n{said[-2000:]}")
    return usage.ru_utime + usage.ru_stime if runs else None


def parts_of(command, ways_of, preload, warmup, length, deadline):
    """One run: its parts as (way or none, from, to, cohabit's CPU seconds or none where the program ended in it), in ns of the
    monotonic clock, and its records."""
    with tempfile.TemporaryDirectory() as room:
        path = os.path.join(room, "progress")
        environment = dict(os.environ, LD_PRELOAD=preload, COHABIT_PROGRESS=path)
        program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        try:
            runs, parts, ways = rest(program, time.monotonic() + warmup), [], []
            while runs:
                began = time.monotonic_ns()
                runs = rest(program, time.monotonic() + length / 2)
                parts.append((None, began, time.monotonic_ns(), 0.0 if runs else None))
                if not runs or time.monotonic() > deadline:
                    break
                ways = ways or random.sample(list(ways_of), len(ways_of))
                way, began = ways.pop(), time.monotonic_ns()
                own = attached(program, ways_of[way], length)
                runs = own is not None
                parts.append((way, began, time.monotonic_ns(), own))
        finally:
            if program.poll() is None:
                program.kill()
            program.wait()
        records = np.fromfile(path, RECORD) if os.path.exists(path) else np.zeros(0, RECORD)
        return parts, records[: int(np.argmin(records["clock"] > 0)) if not records["clock"].all() else len(records)]


def iterations(parts, records):
    """The records with which iterations begin: the fewest after which the same regions come again in the same order, from
    the first part on to the last in which the program did not end. None where there is no such number."""
    ended = max((part[2] for part in parts if part[3] is not None), default=0)
    records = records[(records["clock"] >= parts[0][1]) & (records["clock"] <= ended)]
    regions = records["region"]
    names, counts = np.unique(regions, return_counts=True)
    rarest = np.flatnonzero(regions == names[counts == counts[counts >= 10].min()][0]) if counts.max(initial=0) >= 10 else []
    for other in rarest[1:MOST_A_PERIOD]:
        period = other - rarest[0]
        if 4 * period < len(regions) and np.array_equal(regions[rarest[0] : -period], regions[other:]):
            return records[rarest[0] :: period]
    return None


def steps(parts, records):
    """The records of the rarest region that begins LEAST_A_PART times and more in each whole part; none where none does."""
    found = None
    for region in np.unique(records["region"]):
        marks = records[records["region"] == region]
        counts = [np.count_nonzero((marks["clock"] >= began) & (marks["clock"] <= ended)) for _, began, ended, own in parts if own is not None]
        if min(counts, default=0) >= LEAST_A_PART and (found is None or len(marks) < len(found)):
            found = marks
    return found


def costs_of(parts, records):
    """Of each part with cohabit that has a whole part without before and after it: way, cost, of it cohabit's own, and seconds an
    iteration before, in it and after."""
    marks = iterations(parts, records) if len(records) and len(parts) > 2 else None
    if marks is None and len(records):
        marks = steps(parts, records)
        if marks is not None:
            print(f"no regions come again and again in the same order: compared by the rarest that begins {LEAST_A_PART} times in every part", file=sys.stderr)
    if marks is None:
        print("nothing to compare by: no parallel regions come again and again", file=sys.stderr)
        return []
    found = []
    for way, began, ended, own in parts:
        inside = marks[(marks["clock"] >= began) & (marks["clock"] <= ended)]
        many = len(inside) - 1
        if own is None or many < 5:
            found.append((way, None, 0, 0.0))
            continue
        each = (int(inside["cpu"][-1]) - int(inside["cpu"][0])) / 1e9 / many
        share = (int(inside["clock"][-1]) - int(inside["clock"][0])) / (ended - began)
        found.append((way, each, many / share, own))
    costs = []
    for before, (way, each, many, own), after in zip(found, found[1:], found[2:]):
        if way and each and before[1] and after[1]:
            costs.append((way, (each + own / many) / ((before[1] + after[1]) / 2), own / many / each, before[1], each, after[1]))
    return costs


def middle(values):
    """Hodges and Lehmann's estimate and its 95 % interval by signed ranks (Hollander and Wolfe, Nonparametric Statistical Methods, 3.3)."""
    count = len(values)
    means = sorted((values[a] + values[b]) / 2 for a in range(count) for b in range(a + 1))
    # How many of all choices of signs have a sum of positive ranks of so much.
    ways = [1] + [0] * (count * (count + 1) // 2)
    for rank in range(1, count + 1):
        for total in range(len(ways) - 1, rank - 1, -1):
            ways[total] += ways[total - rank]
    below, skip = 0, 0
    while below + ways[skip] <= 0.025 * 2**count:
        below += ways[skip]
        skip += 1
    return statistics.median(means), (means[skip - 1], means[len(means) - skip]) if skip else None


def average(lists):
    """The mean of the lists' means, and its 95 % interval by their standard errors; none where one has too few values."""
    mean = statistics.mean(statistics.mean(values) for values in lists)
    if min(map(len, lists)) < 6:
        return mean, None
    error = math.sqrt(sum(statistics.variance(values) / len(values) for values in lists)) / len(lists)
    return mean, (mean - 1.96 * error, mean + 1.96 * error)


def text(found):
    cost, bounds = found
    return f"{percent(cost)} ({f'{percent(bounds[0])} to {percent(bounds[1])}' if bounds else 'too few for an interval'})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--slice", type=float, default=10)
    parser.add_argument("--warmup", type=float, default=2)
    parser.add_argument("--way", action="append", default=[], metavar="NAME=OPTIONS")
    parser.add_argument("--program", action="append", required=True, metavar="NAME=CMD")
    arguments = parser.parse_args()
    programs = {name: shlex.split(line) for name, _, line in (program.partition("=") for program in arguments.program)}
    ways = {name: shlex.split(options) for name, _, options in (way.partition("=") for way in arguments.way)} or WAYS
    costs = {name: {way: [] for way in ways} for name in programs}
    with tempfile.TemporaryDirectory() as room:
        preload = os.path.join(room, "progress.so")
        subprocess.run(["cc", "-O2", "-Wall", "-shared", "-fPIC", "-o", preload, os.path.join(ROOT, "benches/progress.c"), "-ldl"], check=True)
        began = time.monotonic()
        while time.monotonic() - began < arguments.seconds:
            for name, command in programs.items():
                # A program has its share of what is left in this turn, however long it would run.
                deadline = time.monotonic() + max(3 * arguments.slice, arguments.seconds / len(programs) / 3)
                for way, ratio, own, before, each, after in costs_of(*parts_of(command, ways, preload, arguments.warmup, arguments.slice, deadline)):
                    costs[name][way].append(ratio)
                    print(f"{name}: {way} {percent(ratio)}, of it cohabit's own {100 * own:.2f} %; ms an iteration {1e3 * before:.3f}, {1e3 * each:.3f}, {1e3 * after:.3f}", file=sys.stderr, flush=True)
    print("| program | parts | " + " | ".join(f"{way}, 95 %" for way in ways) + " |")
    print("|---|---|" + "---|" * len(ways))
    for name, found in costs.items():
        row = [text(middle(found[way])) if found[way] else "none" for way in ways]
        print(f"| {name} | {', '.join(str(len(found[way])) for way in ways)} | " + " | ".join(row) + " |")
    if len(programs) > 1 and all(len(found[way]) > 1 for found in costs.values() for way in ways):
        print("| average | | " + " | ".join(text(average([found[way] for found in costs.values()])) for way in ways) + " |")


if __name__ == "__main__":
    main()

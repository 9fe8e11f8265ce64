"""Ways of running one program, compared in blocks; for the benchmarks beside it.

What is to be resolved (a percent or so) is less than what two runs differ by on a shared machine, so
- the ways come in blocks, each way once, in an order drawn at random; only runs of one block are compared, so that what
  changes slowly (clock rate, neighbours) is the same for all;
- CPU time is user and system, of the program and all it started, by wait4(2);
- what a way costs is the median of the blocks' ratios to the first way, its interval from the binomial distribution (no
  assumption on how ratios are spread; one disturbed block moves it by a rank);
- a block counts however it looks.
"""

import math
import os
import random
import statistics
import subprocess
import sys
import time


def run(line):
    """CPU and wall seconds of a command; ends the script where it fails."""
    began = time.monotonic()
    with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"bench: {' '.join(map(str, line))}: status {process.returncode}")
    return {"cpu": usage.ru_utime + usage.ru_stime, "wall": time.monotonic() - began}


def block(ways):
    """Each way once, in an order drawn at random."""
    order = random.sample(list(ways), len(ways))
    return {way: run(ways[way]) for way in order}


def interval(values):
    """The median and its 95 % interval, from ranks; none while there are too few."""
    values, count, below, rank = sorted(values), len(values), 0.0, 0
    while below + math.comb(count, rank) / 2**count <= 0.025:
        below += math.comb(count, rank) / 2**count
        rank += 1
    return statistics.median(values), (values[rank - 1], values[count - rank]) if rank else None


def ratios(blocks, time_of, way, to):
    """The `cpu` or `wall` time of a way over that of another, block by block."""
    return [found[way][time_of] / found[to][time_of] for found in blocks]


def percent(ratio):
    return f"{100 * (ratio - 1):+.2f} %"

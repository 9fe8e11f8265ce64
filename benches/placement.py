#!/usr/bin/env python3
"""What placing a program's threads is worth on this machine, as Markdown tables: wall and CPU time under each way of
placing them over that of the program by itself, with 95 % intervals.

    benches/placement.py [--threads N] [--blocks B] [--seconds S] [--ways WAY,WAY...] [--json FILE] NAME=PROGRAM[=PROFILED]...

Each program (OpenMP, or any that has N threads) is profiled once, exactly; PROFILED is another one to take the profile
of, with as many threads, for instance of a smaller class. Then it runs by itself (system: the scheduler places its
threads) and in each way, in blocks (blocks.py says how they are compared), B for each program or as many as S
seconds allow, program after program in every round. Ways: `best`, `packed`, `scatter` and `random` are the
mappings of those mappers, `watched` is `cohabit run --dry-run`, and `online` is `cohabit run` without a profile. Below
the times stands the verdict of `cohabit map`: whether there is anything to gain.

By default N is the number of PUs. Needs what profiling needs, and COHABIT (default: target/release/cohabit).
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

from blocks import block, interval, ratios, run

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COHABIT = os.environ.get("COHABIT", f"{ROOT}/target/release/cohabit")
MAPPED = ("best", "packed", "scatter", "random")
WAYS = MAPPED + ("watched", "online")


def said(line):
    """Standard output of a command that has to succeed."""
    ran = subprocess.run(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if ran.returncode:
        sys.exit(f"bench: {shlex.join(line)}: status {ran.returncode}\n{ran.stderr[-2000:]}")
    return ran.stdout


class Program:
    """One program, its mappings and what was measured of it."""

    def __init__(self, text, folder, ways):
        self.name, command, *profiled = text.split("=")
        self.command = shlex.split(command)
        self.profile = os.path.join(folder, f"{self.name}.npz")
        run([COHABIT, "profile", "-o", self.profile, "--"] + (shlex.split(profiled[0]) if profiled else self.command))
        self.ways = {"system": self.command}
        self.blocks = []
        self.verdict = None
        for way in ways:
            options = []
            if way in MAPPED:
                mapping = os.path.join(folder, f"{self.name}.{way}.json")
                found = json.loads(said([COHABIT, "map", self.profile, "--mapper", way, "-o", mapping, "--json", "-"]))
                options = ["--mapping", mapping]
                if way == "best":
                    self.verdict = found["verdict"]["text"]
            elif way == "watched":
                options = ["--dry-run"]
            self.ways[way] = [COHABIT, "run"] + options + ["--"] + self.command

    def row(self, time_of):
        """A line of a table: the program by itself in seconds, and each way over it."""
        alone = statistics.median(found["system"][time_of] for found in self.blocks)
        cells = [self.name, str(len(self.blocks)), f"{alone:.2f}"]
        for way in self.ways:
            if way != "system":
                median, bounds = interval(ratios(self.blocks, time_of, way, "system"))
                limits = f" ({bounds[0]:.3f} to {bounds[1]:.3f})" if bounds else " (too few)"
                cells.append(f"{median:.3f}{limits}")
        return f"| {' | '.join(cells)} |"


def tables(programs, ways):
    for time_of in ("wall", "cpu"):
        print(f"\n| program | blocks | {time_of} s by itself | {' | '.join(ways)} |")
        print("|---|---|---|" + "---|" * len(ways))
        for program in programs:
            if program.blocks:
                print(program.row(time_of), flush=True)
    for program in programs:
        if program.verdict:
            print(f"\n{program.name}: {program.verdict}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--ways", default="best,packed,scatter,random")
    parser.add_argument("--json", metavar="FILE", help="write every run's seconds to FILE")
    parser.add_argument("programs", nargs="+", metavar="NAME=PROGRAM[=PROFILED]")
    arguments = parser.parse_args()
    ways = arguments.ways.split(",")
    unknown = [way for way in ways if way not in WAYS]
    if unknown:
        parser.error(f"{unknown[0]} is no way of placing threads: {', '.join(WAYS)}")
    os.environ.update(OMP_NUM_THREADS=str(arguments.threads))
    began, number = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        programs = [Program(text, folder, ways) for text in arguments.programs]
        while number < arguments.blocks if arguments.seconds is None else time.monotonic() - began < arguments.seconds:
            for program in programs:
                program.blocks.append(block(program.ways))
            number += 1
            if arguments.json:
                with open(arguments.json, "w", encoding="utf-8") as file:
                    json.dump({program.name: program.blocks for program in programs}, file)
    tables(programs, ways)


if __name__ == "__main__":
    main()

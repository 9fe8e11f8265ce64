#!/usr/bin/env python3
"""Simulated times beside measured ones, on the machine at hand.

    benches/reality.py DIRECTORY [--threads 1,2] [--machine here.toml] [--calibrate COMMAND] [--runs 9] [--keep FOLDER]

Measures this machine (`cohabit measure --machine`), calibrates its rate of instructions on COMMAND, which should be none of
the programs in DIRECTORY, then runs each of these (OpenMP; OMP_NUM_THREADS is set), records it and simulates it there, thread
n on PU n. What counts of the runs is the fastest: of one thread its CPU time, of several the time by the clock. Prints a table
in Markdown. Use an idle machine. Needs target/release/cohabit.
"""
import argparse
import json
import os
import pathlib
import resource
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COHABIT = ROOT / "target/release/cohabit"
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}


def measured(program, environment, threads, runs):
    """Seconds of the fastest run."""
    found = []
    for _ in range(runs):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        # Some of NPB return what happens to be in a register.
        subprocess.run([program], env=environment, **QUIET)
        took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        found.append(cpu if threads == 1 else took)
    return min(found)


def simulated(program, environment, threads, machine, folder):
    """Seconds of the simulation."""
    path = folder / f"{program.name}.{threads}.rec"
    if not path.exists():
        subprocess.run([COHABIT, "record", "-o", path, "--", program], env=environment, **QUIET)
        if not path.exists():
            sys.exit(f"{program} could not be recorded")
    to = folder / "simulated.json"
    subprocess.run([COHABIT, "simulate", path, "--machine", machine, "--mapper", "packed", "--json", to], check=True, **QUIET)
    return json.loads(to.read_text())["mappings"][0]["report"]["time_fs"] / 1e15


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--machine", type=pathlib.Path)
    parser.add_argument("--calibrate", default="")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--keep", type=pathlib.Path)
    arguments = parser.parse_args()
    folder = arguments.keep or pathlib.Path(tempfile.mkdtemp())
    machine = arguments.machine or folder / "here.toml"
    if not machine.exists():
        calibration = ["--", *shlex.split(arguments.calibrate)] if arguments.calibrate else []
        subprocess.run([COHABIT, "measure", "--machine", machine, *calibration], check=True)
    programs = sorted(path for path in arguments.directory.iterdir() if path.is_file() and os.access(path, os.X_OK))
    print("| program | threads | measured (ms) | simulated (ms) | simulated over measured |\n|---|---|---|---|---|")
    for program in programs:
        for threads in map(int, arguments.threads.split(",")):
            environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
            took = measured(program, environment, threads, arguments.runs)
            found = simulated(program, environment, threads, machine, folder)
            print(f"| {program.name} | {threads} | {1e3 * took:.1f} | {1e3 * found:.1f} | {found / took:.2f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())

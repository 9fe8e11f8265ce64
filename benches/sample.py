#!/usr/bin/env python3
"""What `cohabit simulate --sample` costs and how far it is off, beside the simulation of the whole run.

    benches/sample.py RECORDING... [--machine harpertown purple] [--seeds 4]

A line a recording and machine, `packed` and `scatter` each: CPU time without and with --sample (the mean over seeds);
errors of the samples' times of `packed`, half of their intervals, and errors of `scatter` relative to `packed` (%).
docs/simulator.md has the table. COHABIT names the program, else it is target/release/cohabit.
"""

import argparse
import json
import os
import resource
import subprocess
from pathlib import Path

PROGRAM = os.environ.get("COHABIT", str(Path(__file__).resolve().parent.parent / "target/release/cohabit"))


def simulate(recording, machine, *options):
    """The document of a simulation, and the CPU time it took (s)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [PROGRAM, "simulate", recording, "--machine", machine, "--mapper", "packed", "scatter"]
    ran = subprocess.run([*command, "--quiet", "--json", "-", *options], stdout=subprocess.PIPE, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [mapping["report"] for mapping in json.loads(ran.stdout)["mappings"]], cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", nargs="+")
    parser.add_argument("--machine", nargs="+", default=["harpertown", "purple"])
    parser.add_argument("--seeds", type=int, default=4)
    arguments = parser.parse_args()
    print("| recording, machine | CPU time (s) | error (%), packed | half of the interval (%) | error of the ratio (%) |")
    print("|---|---|---|---|---|")
    for recording in arguments.recording:
        for machine in arguments.machine:
            whole, cpu_whole = simulate(recording, machine)
            times = [report["time_fs"] for report in whole]
            errors, margins, ratios, cpus = [], [], [], []
            for seed in range(1, arguments.seeds + 1):
                found, cpu = simulate(recording, machine, "--sample", "--seed", str(seed))
                estimates = [report["time_fs"] for report in found]
                cpus.append(cpu)
                errors.append(100 * (estimates[0] / times[0] - 1))
                margins.append(100 * found[0]["sampled"]["margin_fs"] / estimates[0])
                ratios.append(100 * (estimates[1] / estimates[0] - times[1] / times[0]))
            listed = [", ".join(f"{value:.1f}" for value in values) for values in (errors, margins, ratios)]
            mean = sum(cpus) / len(cpus)
            print(f"| {Path(recording).stem}, {machine} | {cpu_whole:.1f}, {mean:.1f} | {' | '.join(listed)} |", flush=True)


if __name__ == "__main__":
    main()

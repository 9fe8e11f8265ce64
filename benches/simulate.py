#!/usr/bin/env python3
"""What placement is worth on machines that are not at hand: programs recorded once, simulated under several mappings.

    benches/simulate.py DIRECTORY [--threads 8] [--machines harpertown,purple] [--mappers packed,scatter,best]
                        [--keep FOLDER] [--jobs 2]

DIRECTORY has programs (OpenMP; OMP_NUM_THREADS is set). What is in FOLDER already, recordings and results, is used again:
remove the results after a change to the simulator. Prints a table a machine, in Markdown: simulated time of each mapping, and
what the last has over the one before it. Needs target/release/cohabit.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
COHABIT = ROOT / "target/release/cohabit"


def recorded(program, threads, folder):
    path = folder / f"{program.name}.{threads}.rec"
    if not path.exists():
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        # Some of NPB return what happens to be in a register: a recording is written whole or not at all.
        subprocess.run([COHABIT, "record", "-o", path, "--", program], env=environment, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        if not path.exists():
            sys.exit(f"{program} could not be recorded")
    return path


def told(words, path):
    """What a command says as JSON, kept in `path`."""
    if not path.exists():
        part = path.with_suffix(".part")
        subprocess.run([COHABIT, *words, "--json", part], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        part.rename(path)
    return json.loads(path.read_text())


def one(program, threads, machine, mappers, folder):
    """Reports of a program on a machine, a mapping each."""
    path = recorded(program, threads, folder)
    to = folder / f"{program.name}.{threads}.{machine}.{'-'.join(mappers)}.json"
    return [found["report"] for found in told(["simulate", path, "--machine", machine, "--mapper", *mappers], to)["mappings"]]


def change(after, before):
    return "0" if before == after else f"{100 * (after / before - 1):+.0f} %" if before else "-"


def last_misses(report):
    return sum(report["total"]["last_misses"].values())


def transferred(report):
    served = [report["total"][kind] for kind in ("loads_served", "stores_served")]
    return sum(one["near_cache"] + one["far_cache"] for one in served)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--machines", default="harpertown,purple")
    parser.add_argument("--mappers", default="packed,scatter,best")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    mappers = arguments.mappers.split(",")
    folder = arguments.keep or pathlib.Path(tempfile.mkdtemp())
    programs = sorted(path for path in arguments.directory.iterdir() if path.is_file() and os.access(path, os.X_OK))
    over = f"{mappers[-1]} over {mappers[-2]}" if len(mappers) > 1 else ""
    machines = arguments.machines.split(",")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for _ in pool.map(lambda program: recorded(program, arguments.threads, folder), programs):
            pass
        asked = {(machine, program): pool.submit(one, program, arguments.threads, machine, mappers, folder)
                 for machine in machines for program in programs}
        for machine in machines:
            print(f"\n{machine}, {arguments.threads} threads\n")
            names = "".join(f" {name} (ms) |" for name in mappers)
            print(f"| program |{names} {over}: time | misses of last caches | copies taken away | cache to cache | polling |")
            print("|---|" + "---|" * (len(mappers) + 5))
            for program in programs:
                print(row(program.name, asked[machine, program].result()), flush=True)


def row(name, reports):
    times = "".join(f" {report['time_fs'] / 1e12:.2f} |" for report in reports)
    after, before = reports[-1], reports[max(len(reports) - 2, 0)]
    changes = [change(of(after), of(before)) for of in (
        lambda report: report["time_fs"], last_misses, lambda report: report["total"]["invalidations"], transferred)]
    total = after["total"]
    made = total["loads"] + total["stores"] + total["polls_recorded"]
    return f"| {name} |{times} {' | '.join(changes)} | {100 * total['polls_recorded'] / made:.1f} % |"


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What `--objective congestion` is worth in the simulator, beside the mappings that it must not be behind.

    benches/congestion.py measure FOLDER [--recordings DIRECTORY] [--synthetic pairs:8,all:16:64] [--machines purple,deloc,epyc]
                          [--jobs 1] [--budget SECONDS]
    benches/congestion.py table FOLDER

`measure` simulates every recording (*.rec, `cohabit record`) and every made-up one (`synthetic:KIND:TASKS...`) on every machine
under all mappings of MAPPERS, without and with --share-cores; what is in FOLDER already is used again. `table` reads FOLDER: a line
a program and machine, each other mapping's time over that of congestion (above 1: congestion is ahead), and the sums of that,
for two halves of all lines (those whose CRC-32 is even, and the others). Needs target/release/cohabit (or COHABIT).
"""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import subprocess
import sys
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
COHABIT = os.environ.get("COHABIT", str(ROOT / "target/release/cohabit"))
OWN = "best --objective congestion"
MAPPERS = ["packed", "scatter", "balance", "treematch", "best", "random", "deloc"]
# What congestion is held against: DeLoc's mapper is simulated too, but nothing is promised of it.
HELD_AGAINST = [name for name in MAPPERS if name != "deloc"]
# It is behind where it takes longer by this factor.
BEHIND = 1.02


def simulated(folder, name, recording, machine, limit):
    to = folder / f"{name}.{machine}.json"
    if to.exists():
        return
    part = to.with_suffix(".part")
    words = [COHABIT, "simulate", recording, "--machine", machine, "--mapper", *MAPPERS, "--objective", "congestion",
             "--share-cores", "--json", part]
    begun = time.monotonic()
    try:
        done = subprocess.run([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        print(f"{name} on {machine}: not within {limit} s", file=sys.stderr, flush=True)
        return
    if done.returncode or not part.exists():
        print(f"{name} on {machine}: {done.stderr.strip()[-300:]}", file=sys.stderr, flush=True)
        return
    rows = [{"name": one["name"], "time_fs": one["report"]["time_fs"], "pus": one["pus"]}
            for one in json.loads(part.read_text())["mappings"]]
    part.unlink()
    to.write_text(json.dumps(rows))
    print(f"{name} on {machine}: {time.monotonic() - begun:.0f} s", flush=True)


def measure(options):
    options.folder.mkdir(parents=True, exist_ok=True)
    recordings = []
    for directory in options.recordings:
        found = sorted(directory.glob("*.rec"), key=lambda path: path.stat().st_size)
        recordings += [(path.stem, path) for path in found]
    recordings = [(text.replace(":", "-"), f"synthetic:{text}") for text in options.synthetic] + recordings
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, recording in recordings:
            for machine in options.machines:
                pool.submit(simulated, options.folder, name, recording, machine, options.budget)


def is_chosen_by(name):
    """Whether a line is of the half that may be looked at while the model is made."""
    return zlib.crc32(name.encode()) % 2 == 0


def table(options):
    lines = []
    for path in sorted(options.folder.glob("*.json")):
        times = {row["name"]: row["time_fs"] for row in json.loads(path.read_text())}
        lines.append((path.stem, times))
    kinds = [(name, shared) for shared in ("", " --share-cores") for name in HELD_AGAINST]
    heads = [name + (" (shared)" if shared else "") for name, shared in kinds]
    for own_shared in ("", " --share-cores"):
        own = OWN + own_shared
        print(f"\n{own}: the other mapping's time over its own\n")
        print("| program | machine | half | " + " | ".join(heads) + " |")
        print("|---|---|---|" + "---|" * len(heads))
        for half in (True, False):
            for stem, times in lines:
                if is_chosen_by(stem) == half:
                    program, machine = stem.rsplit(".", 1)
                    cells = [f"{times[name + shared] / times[own]:.3f}" for name, shared in kinds]
                    print(f"| {program} | {machine} | {'chosen by' if half else 'held back'} | " + " | ".join(cells) + " |")
        for half in (True, False):
            part = [times for stem, times in lines if is_chosen_by(stem) == half]
            if part:
                said = []
                for (name, shared), head in zip(kinds, heads):
                    ratios = [times[name + shared] / times[own] for times in part]
                    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                    behind = sum(ratio * BEHIND < 1 for ratio in ratios)
                    said.append(f"{head} {mean:.3f}, behind by 2 % in {behind}")
                print(f"\n{'chosen by' if half else 'held back'}: {len(part)} lines; geometric means: " + "; ".join(said))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = parser.add_subparsers(required=True)
    one = sub.add_parser("measure")
    one.add_argument("folder", type=pathlib.Path)
    one.add_argument("--recordings", type=lambda text: [pathlib.Path(one) for one in text.split(",")], default=[])
    one.add_argument("--synthetic", type=lambda text: text.split(","), default=[])
    one.add_argument("--machines", type=lambda text: text.split(","), default=["purple", "deloc", "epyc"])
    one.add_argument("--jobs", type=int, default=1, help="simulations at once")
    one.add_argument("--budget", type=float, default=600, help="seconds that all mappings of one program and machine may take")
    one.set_defaults(run=measure)
    one = sub.add_parser("table")
    one.add_argument("folder", type=pathlib.Path)
    one.set_defaults(run=table)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()

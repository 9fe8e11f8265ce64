#!/usr/bin/env python3
"""What `cohabit tune` finds and proves by itself, for programs on the emulated cluster (workloads/cluster).

    benches/tune.py [--npb DIR] [--programs PATTERN,...] [--budget 60s]

Each of the programs of benches/cluster.py (all but those that a pattern leaves out) is given to `tune` as it would be
started, its ranks in their order over the hosts, and LAMMPS a second time with the parts of its box shuffled over its ranks.
Printed is a table of what tune ends with. Root; python3, iproute2, Open MPI, and LAMMPS where it is to be in the table.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

import cluster as bench

SHUFFLED = "lammps.8, shuffled"


def launches(arguments, cluster, folder):
    """Name, and the words that start it; DT ends with 1 where all went well."""
    found = {}
    for name, (ranks, words) in bench.programs(arguments, folder).items():
        found[name] = ["mpirun", "-n", str(ranks), "--hostfile", f"{cluster}/hostfile", *words]
    if "lammps.8" in found:
        # Which part of the box each rank has: LAMMPS numbers its ranks anew by such a file.
        parts = list(range(8))
        random.Random(7).shuffle(parts)
        with open(f"{folder}/shuffled", "w", encoding="ascii") as file:
            file.write("".join(f"{rank} {part}\n" for rank, part in enumerate(parts)))
        found[SHUFFLED] = [*found["lammps.8"], "-reorder", "custom", f"{folder}/shuffled"]
    return found


def tuned(cluster, folder, name, words, budget):
    """What tune's document says; None, said aloud, where it failed."""
    kind, size = (name.split(".") + [""])[:2]
    if kind in bench.INPUTS and size == "W":
        with open(f"{folder}/input{kind}.data", "w", encoding="ascii") as file:
            file.write(bench.INPUTS[kind].format(steps=bench.STEPS[kind]))
    status = ["--status", f"0,{bench.STATUS_OF_DATA_TRAFFIC}"] if kind == "dt" else []
    options = ["--topology", f"{cluster}/cluster.toml", "--budget", budget, *status, "--json", f"{folder}/{name}.json"]
    command = [bench.cohabit(), "tune", *options, "-o", f"{folder}/{name}.map.json", "--", *words]
    ran = subprocess.run([f"{cluster}/on", "n0", *command], cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode != 0 or not os.path.exists(f"{folder}/{name}.json"):
        print(f"failed: {name}: {bench.said(ran.stderr)}", file=sys.stderr)
        return None
    with open(f"{folder}/{name}.json", encoding="utf-8") as file:
        return json.load(file)


def row(name, document):
    gain = document["gain"]
    if gain is None:
        return f"| {name} | no gain | | | {document['no_gain']} |"
    low, high = (100 * end for end in gain["interval"])
    hosts = "the same" if gain["same_hosts"] else "others"
    return f"| {name} | {100 * gain['change']:.1f} % | {low:.1f} % to {high:.1f} % | {hosts} | {gain['arm']} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--npb", help="binaries of NPB-MPI, named NAME.CLASS.RANKS")
    parser.add_argument("--programs", help="patterns of names, with commas between")
    parser.add_argument("--budget", default="60s", help="of each program (default: 60s)")
    arguments = parser.parse_args()
    bench.stop_by_signals()
    with tempfile.TemporaryDirectory(prefix="cohabit-tune-") as folder:
        cluster = f"{folder}/cluster"
        with bench.created(cluster):
            print("| program, ranks | change | 95 % interval | hosts of ranks | by, or why not |\n|---|---|---|---|---|")
            for name, words in launches(arguments, cluster, folder).items():
                document = tuned(cluster, folder, name, words, arguments.budget)
                if document is not None:
                    print(row(name, document), flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""How often `cohabit compare` and `cohabit tune` find a difference where there is none, on this machine.

    benches/same.py [--comparisons N] [--tunings N] [--blocks B] [--confidence SHARE] -- PROGRAM...

The program is started by `taskset` with all PUs, so that whatever it was confined to before is undone, and all arms are the
system's placement. N comparisons with three such arms beside the system's, and N tunings, are made; what is printed is how many
claimed a difference, and how many may by chance (the binomial bound that is passed once in a thousand times). Comparisons are by
the wall time; the program should take some tenths of a second. Needs taskset, and COHABIT (default: target/release/cohabit).
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COHABIT = os.path.abspath(os.environ.get("COHABIT", f"{ROOT}/target/release/cohabit"))


def cohabit(folder, *words):
    ran = subprocess.run([COHABIT, *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if ran.returncode:
        sys.exit(f"bench: cohabit {' '.join(words)}: status {ran.returncode}\n{ran.stderr[-2000:]}")


def result(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def bound(count, share):
    """The largest number that is not passed in 999 of 1,000 cases."""
    below = 0.0
    for number in range(count + 1):
        below += math.comb(count, number) * share**number * (1 - share) ** (count - number)
        if below >= 0.999:
            return number
    return count


def tell(what, claims, count, share):
    if count:
        print(f"{what}: {claims} of {count} claimed a difference; at {100 * share:g} % up to {bound(count, share)} may by chance", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=20)
    parser.add_argument("--tunings", type=int, default=10)
    parser.add_argument("--blocks", type=int, default=9)
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("program", nargs="+")
    arguments = parser.parse_args()
    pus = ",".join(str(pu) for pu in sorted(os.sched_getaffinity(0)))
    program = ["taskset", "-c", pus] + arguments.program
    placed = ["--pinning", "always", "--hold-main", "--confidence", str(arguments.confidence)]
    claims = winners = 0
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "silent.csv"), "w", encoding="utf-8") as file:
            file.write("0\n")
        cohabit(folder, "import", "silent.csv", "-o", "p.npz")
        cohabit(folder, "map", "p.npz", "--mapper", "packed", "-o", "m.json")
        for seed in range(arguments.comparisons):
            kept = f"c{seed}.json"
            words = ["compare", *["--mapping", "m.json"] * 3, *placed, "--seed", str(seed), "--runs", str(arguments.blocks)]
            cohabit(folder, *words, "-o", kept, "--json", "r.json", "--", *program)
            claims += any(arm["change"] and arm["change"]["claim"] != "not shown" for arm in result(folder, "r.json")["arms"])
        tell("compare", claims, arguments.comparisons, 1 - arguments.confidence)
        for seed in range(arguments.tunings):
            words = ["tune", "--anyway", "--profile", "p.npz", *placed, "--seed", str(seed), "--budget", "1m"]
            cohabit(folder, *words, "-o", f"t{seed}.json", "--json", "t.json", "--", *program)
            winners += result(folder, "t.json")["gain"] is not None
        tell("tune", winners, arguments.tunings, 1 - arguments.confidence)


if __name__ == "__main__":
    main()

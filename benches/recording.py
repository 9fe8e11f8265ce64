#!/usr/bin/env python3
"""What recording costs: bytes an access, and CPU time over native, for the programs in a directory.

    benches/recording.py DIRECTORY [THREADS]

Runs alternate; CPU time, the least of three. Needs target/release/cohabit.
"""
import json
import math
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
COHABIT = ROOT / "target/release/cohabit"


def cpu_seconds(command, environment):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    directory = pathlib.Path(sys.argv[1])
    threads = sys.argv[2] if len(sys.argv) > 2 else "2"
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "passive"}
    ratios, sizes = [], []
    print(f"{'program':<12} {'native s':>9} {'recorded':>9} {'accesses':>14} {'B/access':>9}")
    for program in sorted(path for path in directory.iterdir() if os.access(path, os.X_OK) and path.is_file()):
        with tempfile.TemporaryDirectory(dir=directory) as folder:
            out, told = f"{folder}/r.rec", f"{folder}/r.json"
            record = [COHABIT, "record", "-o", out, "--json", told, "--", program]
            runs = [(cpu_seconds([program], environment), cpu_seconds(record, environment)) for _ in range(3)]
            native, recorded = (min(run[which] for run in runs) for which in (0, 1))
            said = json.loads(pathlib.Path(told).read_text())
        ratios.append(recorded / max(native, 1e-3))
        sizes.append(said["bytes"] / said["accesses"])
        print(f"{program.name:<12} {native:9.2f} {ratios[-1]:8.1f}x {said['accesses']:>14} {sizes[-1]:9.4f}", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean of CPU time {mean:.1f}x, mean of bytes an access {sum(sizes) / len(sizes):.3f}")


if __name__ == "__main__":
    main()

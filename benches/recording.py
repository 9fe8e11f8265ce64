#!/usr/bin/env python3
"""What recording costs: bytes an access, and CPU time over native, for the programs in a directory.

    benches/recording.py DIRECTORY [THREADS [RUNS]]

Runs alternate; CPU time, the least of RUNS (3); peak memory of the largest process. Needs target/release/cohabit.
"""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
COHABIT = ROOT / "target/release/cohabit"


def run(command, environment):
    """CPU time in s, and peak memory of the largest process in MiB."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    usage = os.wait4(process.pid, 0)[2]
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    directory = pathlib.Path(sys.argv[1])
    threads = sys.argv[2] if len(sys.argv) > 2 else "2"
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "passive"}
    ratios, sizes = [], []
    print(f"{'program':<12} {'native s':>9} {'recorded':>9} {'accesses':>14} {'B/access':>9} {'MiB':>6} {'native':>6}")
    for program in sorted(path for path in directory.iterdir() if os.access(path, os.X_OK) and path.is_file()):
        with tempfile.TemporaryDirectory(dir=directory) as folder:
            out, told = f"{folder}/r.rec", f"{folder}/r.json"
            record = [COHABIT, "record", "-o", out, "--json", told, "--", program]
            runs = [(run([program], environment), run(record, environment)) for _ in range(count)]
            (native, least), (recorded, most) = ((min(one[which][0] for one in runs), max(one[which][1] for one in runs))
                                                 for which in (0, 1))
            said = json.loads(pathlib.Path(told).read_text())
        ratios.append(recorded / max(native, 1e-3))
        sizes.append(said["bytes"] / said["accesses"])
        print(f"{program.name:<12} {native:9.2f} {ratios[-1]:8.1f}x {said['accesses']:>14} {sizes[-1]:9.4f} "
              f"{most:6.0f} {least:6.0f}", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean of CPU time {mean:.1f}x, mean of bytes an access {sum(sizes) / len(sizes):.3f}")


if __name__ == "__main__":
    main()

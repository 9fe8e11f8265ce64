#!/usr/bin/env python3
"""What profiling costs in memory: peak resident memory of a stencil over two 128 MiB grids, natively and profiled, by
threads, as a Markdown table for benches/profiling.md.

    benches/memory.py [THREADS...]

"shared" lets every thread read a quarter of a grid after the sweeps: blocks that all threads share, where reader sets
outgrow their words beyond 48 threads. Needs `make` before.
"""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
STENCIL = ROOT / "build/workloads/stencil"
COHABIT = ROOT / "target/release/cohabit"
SIDE, SWEEPS, SHARED_ROWS = 4096, 2, 1024


def peak_mib(command):
    """Peak resident memory of the largest process that the command starts, in MiB."""
    script = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", script, *command], check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1]) / 1024


def main():
    threads = [int(number) for number in sys.argv[1:]] or [4, 48, 256, 1024]
    print("| threads | blocks | native, MiB | profiled, MiB | more | of native |")
    print("|---|---|---|---|---|---|")
    for shared in (0, SHARED_ROWS):
        for number in threads:
            program = [str(STENCIL), str(number), str(SIDE), str(SWEEPS), str(shared)]
            native = peak_mib(program)
            with tempfile.TemporaryDirectory() as folder:
                profiled = peak_mib([str(COHABIT), "profile", "-o", folder + "/p.npz", "--", *program])
            kind = "shared" if shared else "private"
            more = profiled - native
            print(f"| {number} | {kind} | {native:.0f} | {profiled:.0f} | {more:.0f} | {100 * more / native:.1f} % |", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""How soon phases that nothing announces are recognised in a run (docs/time.md).

    benches/recognised.py [--threads N] [--seconds S] [--times T] [--lines L] [--runs K] [--kind turns|same|any]
                          [--profiled] [--options "..."]

The program is `alternating` of workloads/: threads that exchange L lines with their neighbour for S seconds, then as long with the
thread half of all away, T phases by turns. Its mapping is of a profile that is made here, or by `cohabit profile` (--profiled), onto two
packages which are PUs 0 and 1. Printed, a line a run: after each change, how many seconds until its phase was recognised ("-": not
before the next one), then the phases that were recognised and were not there, the moves, and the events a second.

Needs NumPy and COHABIT (default: target/release/cohabit).
"""
import argparse, json, os, shlex, subprocess, sys, tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
COHABIT = os.path.abspath(os.environ.get("COHABIT", ROOT / "target/release/cohabit"))
PROGRAM = ROOT / "build/workloads/alternating"


def call(line, room):
    ran = subprocess.run(list(map(str, line)), cwd=room, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True)
    if ran.returncode:
        sys.exit(f"{shlex.join(map(str, line))}: status {ran.returncode}\n{ran.stderr[-2000:]}")
    return ran


def partner(task, phase, threads):
    return (task + threads // 2) % threads if phase % 2 else task ^ 1


def profile(arguments, room):
    """Windows of 100 ms in which each thread gives its partner as much."""
    windows = int(arguments.seconds * 10)
    rows = [(bin, task, partner(task, bin // windows, arguments.threads)) for bin in range(4 * windows) for task in range(arguments.threads)]
    bins, sources, destinations = (np.array(column) for column in zip(*rows))
    messages = np.zeros((arguments.threads,) * 2, dtype=np.uint64)
    np.add.at(messages, (sources, destinations), 100_000)
    tasks = [{"id": task, "kind": "thread", "name": "", "host": "", "process": 0, "pid": 0, "tid": 0, "parent": None, "rank": None,
              "spawn_index": task} for task in range(arguments.threads)]
    meta = {"format": 1, "kind": "threads", "detector": "made", "block_bytes": 64, "window_ns": 100_000_000, "clock": "wall time", "command": [],
            "hosts": [], "created": "", "tasks": tasks, "coverage": {"exact": True, "sample_rate": 1.0, "events_lost": 0, "not_seen": []}}
    per_row = np.full(len(bins), 100_000, dtype=np.uint64)
    np.savez(room / "p.npz", meta=np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8), messages=messages, bytes=messages * np.uint64(8),
             series_bin=bins.astype(np.uint64), series_source=sources.astype(np.uint32), series_destination=destinations.astype(np.uint32),
             series_messages=per_row, series_bytes=per_row * np.uint64(8))


def mapping(arguments, room):
    half = arguments.threads // 2
    call([COHABIT, "map", "p.npz", "--per-phase=recurring", "--topology", f"pack:2 core:{half} pu:1", "-o", "m.json"], room)
    found = json.loads((room / "m.json").read_text())
    for seats in [found["tasks"], *(phase["tasks"] for phase in found["phases"]["mappings"])]:
        for seat in seats:
            seat["pu"] //= half
            seat.pop("pus", None)
    (room / "m.json").write_text(json.dumps(found))
    return found


def line(arguments, room, found):
    words = [PROGRAM, arguments.threads, arguments.seconds, arguments.times, arguments.kind, arguments.lines]
    ran = call([COHABIT, "run", "--pinning", "always", "--mapping", "m.json", "--json", "r.json", *shlex.split(arguments.options), "--", *words], room)
    began = [float(text.split()[2]) for text in ran.stdout.splitlines() if text.startswith("phase ")]
    document = json.loads((room / "r.json").read_text())
    recognised = document["recognised"]
    near = {phase["number"]: [0, 1] in [pair[:2] for pair in phase["recognised_by"]["pairs"]] for phase in found["phases"]["mappings"]}
    delays, wrong, before = [], 0, None
    for change in recognised["changes"]:
        phase = sum(start <= change["seconds"] for start in began) - 1
        is_near = arguments.kind == "same" or phase % 2 == 0
        # One that is recognised again, as its rest has come to pay for moving, is no other.
        wrong += arguments.kind == "any" or near[change["number"]] != is_near and change["number"] != before
        before = change["number"]
    for phase, start in enumerate(began):
        end = began[phase + 1] if phase + 1 < len(began) else float("inf")
        right = [change["seconds"] for change in recognised["changes"] if start <= change["seconds"] < end and near[change["number"]] == (phase % 2 == 0)]
        delays.append(right[0] - start if right else None)
    text = " ".join("-" if delay is None else f"{delay:.2f}" for delay in delays)
    rate = recognised["events"] / max(recognised["seconds"], 1e-9)
    print(f"{text}; {wrong} wrong, {recognised['moves']} moves, {rate:.0f} events a second, "
          f"{recognised['own_cpu_seconds']:.2f} s of CPU time used by cohabit in {recognised['seconds']:.1f} s", flush=True)
    return delays, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, kind, default in (("threads", int, 4), ("seconds", float, 4.0), ("times", int, 6), ("lines", int, 4096), ("runs", int, 5)):
        parser.add_argument(f"--{name}", type=kind, default=default)
    parser.add_argument("--kind", default="turns", choices=["turns", "same", "any"])
    parser.add_argument("--profiled", action="store_true")
    parser.add_argument("--options", default="")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        if arguments.profiled:
            call([COHABIT, "profile", "-o", "p.npz", "--", PROGRAM, arguments.threads, arguments.seconds, 4, "turns", 1024], room)
        else:
            profile(arguments, room)
        found = mapping(arguments, room)
        results = [line(arguments, room, found) for _ in range(arguments.runs)]
    delays = [delay for run in results for delay in run[0]]
    known = sorted(delay for delay in delays if delay is not None)
    if known:
        print(f"{len(known)} of {len(delays)} recognised; median {known[len(known) // 2]:.2f} s, longest {known[-1]:.2f} s; {sum(run[1] for run in results)} wrong")


if __name__ == "__main__":
    main()

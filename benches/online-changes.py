#!/usr/bin/env python3
"""How soon online mapping follows a program whose pattern changes.

    benches/online-changes.py [--threads N] [--rounds R] [--runs K] [--group PUS] [--options "..."]

The program is `phases` of workloads/: threads that communicate with their neighbours for R rounds, and then, for as many, with those half
the threads away. Each run is with --always, --verbose and a series of 100 ms. Printed, a line a run: when the pattern changed (the
window that parts the neighbours' events from the others' best), when the first event after it was seen, the mapping interval
then, and after how many decisions and how much time all partners were together: on PUs that are the same when divided by
--group (1: on the same PU; 4: on the same node of four).

Needs NumPy and COHABIT (default: target/release/cohabit).
"""
import argparse, json, os, shlex, subprocess, sys, tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
COHABIT = os.path.abspath(os.environ.get("COHABIT", ROOT / "target/release/cohabit"))
PATTERNS = ROOT / "build/workloads/patterns-pthreads"
WINDOW_MS = 100


def run(arguments, room):
    profile, document = room / "p.npz", room / "r.json"
    line = [COHABIT, "run", "--always", "--verbose", "--window", f"{WINDOW_MS}ms", "-o", profile, "--json", document,
            *shlex.split(arguments.options), "--", PATTERNS, "phases", "--threads", str(arguments.threads),
            "--rounds", str(arguments.rounds), "--blocks", "16384", "--block", "64", "--expect", "/dev/null"]
    ran = subprocess.run(list(map(str, line)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ran.returncode:
        sys.exit(f"{shlex.join(map(str, line))}: status {ran.returncode}\n{ran.stderr[-2000:]}")
    return np.load(profile), json.loads(document.read_text())


def by_window(profile, pairs):
    """Events of these pairs in each window."""
    windows = np.zeros(int(profile["series_bin"].max(initial=0)) + 2)
    rows = zip(profile["series_bin"], profile["series_source"], profile["series_destination"], profile["series_messages"])
    for window, a, b, events in rows:
        if (min(a, b), max(a, b)) in pairs:
            windows[int(window)] += int(events)
    return windows


def together(placement, pairs, group):
    at = [(placement.get(a), placement.get(b)) for a, b in pairs]
    return all(None not in pair and pair[0] // group == pair[1] // group for pair in at)


def line(profile, document, arguments):
    half = arguments.threads // 2
    near = {(2 * k, 2 * k + 1) for k in range(half)}
    far = {(k, k + half) for k in range(half)}
    before, after = by_window(profile, near), by_window(profile, far)
    parts = [before[:window].sum() + after[window:].sum() for window in range(len(before))]
    change = int(np.argmax(parts))
    shown = next((window for window in range(change, len(after)) if after[window]), None)
    if not before[:change].sum() or shown is None:
        return "the change was not seen"
    first = shown * WINDOW_MS
    placement, decisions, earlier = {}, 0, None
    for entry in document["log"]:
        if entry["what"] not in ("kept", "moved", "would-move"):
            continue
        placement.update({task: pu for task, pu in entry.get("moves", [])})
        if entry["time_ms"] < first:
            earlier = entry["time_ms"]
            was_together = together(placement, near, arguments.group)
            continue
        decisions += 1
        if decisions == 1:
            interval = entry["time_ms"] - (earlier or 0)
        if together(placement, far, arguments.group):
            return (f"{'together' if was_together else 'apart'} before; changed at {change * WINDOW_MS / 1000:.1f} s, first seen at {first / 1000:.1f} s, interval {interval} ms; "
                    f"followed by decision {decisions}, {(entry['time_ms'] - first) / 1000:.2f} s later")
    return f"changed at {change * WINDOW_MS / 1000:.1f} s, first seen at {first / 1000:.1f} s, and not followed in {decisions} decisions"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=6000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--group", type=int, default=1)
    parser.add_argument("--options", default="")
    arguments = parser.parse_args()
    for _ in range(arguments.runs):
        with tempfile.TemporaryDirectory() as room:
            profile, document = run(arguments, Path(room))
            print(line(profile, document, arguments), flush=True)


main()

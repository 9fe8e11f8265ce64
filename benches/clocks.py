#!/usr/bin/env python3
"""How well a series in wall time, and one in instructions, agree with one that no instrumentation stretches: the simulator's.

    benches/clocks.py PROGRAM.rec MACHINE PROFILE.npz...

Each series is cut into 20 parts of its own length, from the first to the last window with events; the figure is what two series have
in common, as the sum over parts of the smaller of both shares (1: they agree, 0: they have nothing in common). Of the simulator it is
the loads that came from another core's cache, under `packed`, in 400 windows or so. Needs numpy and target/release/cohabit (or
COHABIT).
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
COHABIT = os.environ.get("COHABIT", str(ROOT / "target/release/cohabit"))
PARTS = 20


def shares(bins, counts):
    """What of all events is in each of PARTS parts of the series."""
    low, high = bins[counts > 0].min(), bins[counts > 0].max() + 1
    edges = np.linspace(low, high, PARTS + 1)
    found = np.zeros(PARTS)
    # A window that lies in several parts is dealt out by its overlap.
    for part in range(PARTS):
        overlap = np.clip(np.minimum(bins + 1, edges[part + 1]) - np.maximum(bins, edges[part]), 0, 1)
        found[part] = (counts * overlap).sum()
    return found / found.sum()


def of_profile(path):
    data = np.load(path)
    meta = json.loads(bytes(data["meta"]))
    width = f"{meta['window_instructions']} instructions" if meta.get("window_instructions") else f"{meta['window_ns']} ns"
    bins = np.unique(data["series_bin"])
    counts = np.bincount(np.searchsorted(bins, data["series_bin"]), weights=data["series_messages"])
    return width, shares(bins, counts)


def of_simulator(recording, machine):
    with tempfile.TemporaryDirectory() as folder:
        to = pathlib.Path(folder) / "sim"
        words = [COHABIT, "simulate", recording, "--machine", machine, "--mapper", "packed"]
        subprocess.run([*words, "--json", f"{to}.json"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time_fs = json.loads(pathlib.Path(f"{to}.json").read_text())["mappings"][0]["report"]["time_fs"]
        window_ns = max(time_fs // 400 // 10**6, 100)
        subprocess.run([*words, "--window", f"{window_ns}ns", "-o", f"{to}.npz"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        data = np.load(f"{to}.npz")
        places = json.loads(bytes(data["meta"]))["places"]
        from_caches = [at for at, place in enumerate(places) if "cache" in place or "core" in place]
        counts = data["series_loads_served"][0][from_caches].sum(axis=0).astype(float)
        return f"{window_ns} ns, {', '.join(places[at] for at in from_caches)}", shares(np.arange(len(counts)), counts)


def main():
    recording, machine, *profiles = sys.argv[1:]
    width, known = of_simulator(recording, machine)
    print(f"simulator, windows of {width}: " + " ".join(f"{100 * share:.0f}" for share in known))
    for path in profiles:
        width, found = of_profile(path)
        print(f"{path}, windows of {width}: in common {np.minimum(known, found).sum():.2f}; "
              + " ".join(f"{100 * share:.0f}" for share in found))


if __name__ == "__main__":
    main()

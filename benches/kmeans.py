#!/usr/bin/env python3
"""Our clusters in time beside scikit-learn's sample-weighted k-means: the sum of squares (DeLoc, equation 1) of both, for as many
clusters as ours has. Ours is never above; the last column says by how much scikit-learn's is.

    benches/kmeans.py PROFILE.npz...

Needs numpy, scikit-learn and target/release/cohabit (or COHABIT).
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from sklearn.cluster import KMeans

ROOT = pathlib.Path(__file__).resolve().parent.parent
COHABIT = os.environ.get("COHABIT", str(ROOT / "target/release/cohabit"))


def objective(bins, weights, labels):
    total = 0.0
    for label in np.unique(labels):
        at, weight = bins[labels == label], weights[labels == label]
        total += (weight * (at - np.average(at, weights=weight)) ** 2).sum()
    return total


def ours(path, bins):
    with tempfile.TemporaryDirectory() as folder:
        to = pathlib.Path(folder) / "show.json"
        words = [COHABIT, "show", path, "--time", "--by", "clusters", "--json", str(to)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        parts = json.loads(to.read_text())["timeline"]["parts"]
    labels = np.full(len(bins), -1)
    for number, part in enumerate(parts):
        for low, high in part["spans"]:
            labels[(bins >= low) & (bins < high)] = number
    assert (labels >= 0).all(), "a window with events is in no cluster"
    return len(parts), labels


def main():
    worst = 0.0
    print(f"{'profile':<28} {'windows':>8} {'clusters':>8} {'ours':>14} {'scikit-learn':>14} {'above ours':>10}")
    for path in sys.argv[1:]:
        data = np.load(path)
        # As our clustering weighs them: what a rank sends to itself is an event there too.
        others = data["series_messages"] > 0
        rows = data["series_bin"][others]
        bins = np.unique(rows)
        weights = np.bincount(np.searchsorted(bins, rows), weights=data["series_messages"][others])
        bins = bins.astype(float)
        clusters, labels = ours(path, bins)
        own = objective(bins, weights, labels)
        found = KMeans(clusters, n_init=10, random_state=1).fit(bins[:, None], sample_weight=weights)
        other = objective(bins, weights, found.labels_)
        above = other / own - 1 if own > 0 else 0.0
        worst = min(worst, above)
        print(f"{pathlib.Path(path).name:<28} {len(bins):>8} {clusters:>8} {own:>14.6g} {other:>14.6g} {100 * above:>8.3f} %")
    # Sums of many numbers: equal to what a double holds of them.
    if worst < -1e-9:
        sys.exit(f"ours is above scikit-learn's by {-100 * worst:.4f} %")


if __name__ == "__main__":
    main()

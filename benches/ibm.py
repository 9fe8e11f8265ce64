#!/usr/bin/env python3
"""The experiments of the IBM report on MPI ranks (sections 2, 7.1 and 7.2; Figures 1, 7 and 9), on the emulated cluster of that report
(workloads/cluster): its own greedy mapping (`hct-greedy`) against the linear one, estimated and measured; and what pairs of ranks
get through, by where they are.

    benches/ibm.py [--npb NPB3.3-MPI/bin] [--rounds 5] [--minutes 30] [--programs 'lu.*,*.16'] [--keep DIR] [--page FILE]
    benches/ibm.py --tables DIR [--page FILE]     what was kept there, measuring nothing
    benches/ibm.py --bandwidth                    Figure 1 alone

As in the report a configuration (program, number of ranks, mapping) runs five times, by turns and in random order here, and its
median counts. The estimated speedup is what the estimator of Figure 4 says of both mappings, times the share of the run that is
spent in MPI. Programs, their steps and what is needed: benches/cluster.py. Its UMT2K and RF-CTH are nobody's to have: NAS
benchmarks, LAMMPS and stencils stand for them.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time

import cluster

MAPPINGS = {"linear": ["--mapper", "packed"], "greedy": ["--mapper", "hct-greedy"]}
# The report, 7.1: differences below this are within measurement error.
ERROR = 0.01


class Configuration(cluster.Bench):
    """A program with so many ranks."""

    def prepare(self):
        """Profiles it and makes both mappings; false, said aloud, where it does not run."""
        if not all(os.path.exists(f"{self.folder}/{mapping}.json") for mapping in MAPPINGS):
            launch = ["mpirun", "--hostfile", f"{self.cluster}/hostfile", "--bind-to", "none", "-n", str(self.ranks)]
            ran = self.on(cluster.cohabit(), "profile", "-o", "p.npz", "--", *launch, *self.words)
            if ran.returncode != self.status:
                print(f"skipped: {self.name}: {cluster.said(ran.stderr)}", file=sys.stderr)
                return False
            for mapping, options in MAPPINGS.items():
                words = [cluster.cohabit(), "map", "p.npz", "--topology", f"{self.cluster}/cluster.toml", *options]
                ran = cluster.run([*words, "-o", f"{mapping}.json"], cwd=self.folder)
                if ran.returncode != 0:
                    sys.exit(f"bench: {self.name}, {mapping}: {ran.stderr}")
                with open(f"{self.folder}/{mapping}.json", encoding="utf-8") as file:
                    placed = json.load(file)
                if not self.own_pus:
                    cluster.deal(placed["tasks"])
                with open(f"{self.folder}/{mapping}.json", "w", encoding="utf-8") as file:
                    json.dump(placed, file)
        self.mappings = list(MAPPINGS)
        return True

    def estimated(self):
        """What the estimator of Figure 4 (all messages at once) and the replay say of both mappings, and the share of MPI."""
        words = [cluster.cohabit(), "evaluate", "p.npz", "--topology", f"{self.cluster}/cluster.toml", "--json", "-"]
        ran = cluster.run([*words, "--mapping", "greedy.json"], cwd=self.folder)
        if ran.returncode != 0:
            sys.exit(f"bench: {self.name}: {ran.stderr}")
        found = json.loads(ran.stdout)
        of = dict(zip(MAPPINGS, found["mappings"]))
        return {"figure_4": {name: one["extreme_seconds"][0] for name, one in of.items()},
                "estimated": {name: one["estimated_seconds"] for name, one in of.items()},
                "replayed": found["replayed"], "share": found["mpi_share"], "alike": self.alike()}


def measure_all(arguments, place, own_pus, folder, results):
    """Round after round, so many or until the time is up."""
    deadline = time.monotonic() + 60 * arguments.minutes
    found = []
    for name, (ranks, words) in cluster.programs(arguments, folder).items():
        one = Configuration(place, own_pus, folder, name, ranks, words, False)
        if one.prepare():
            results.setdefault(name, {"ranks": ranks, "times": {}}).update(one.estimated())
            found.append(one)
            cluster.save(folder, results)
    for number in range(arguments.rounds):
        generator = random.Random(number)
        for one in found:
            entry = results[one.name]
            for mapping in generator.sample([name for name in MAPPINGS if name not in entry["alike"]], 2 - len(entry["alike"])):
                if time.monotonic() > deadline:
                    return
                took = one.measure(mapping)
                if took is not None:
                    entry["times"].setdefault(mapping, []).append(took)
                    cluster.save(folder, results)


# Figure 1's four lines: hosts of the ranks (0 to 4 are one subnet, 5 to 7 the other), pairs being ranks 0 and 1, 2 and 3.
LINES = {"2T across subnets": ([0, 5], "one"), "2T in subnet": ([0, 1], "one"), "2T B in subnet": ([0, 1], "both"),
         "4T B in subnet": ([0, 1, 2, 3], "both")}


def bandwidths(place):
    """Mbit/s by message length of each of Figure 1's lines; the median of three runs."""
    program = f"{cluster.ROOT}/build/workloads/mpi/bandwidth-openmpi"
    if not os.path.exists(program):
        sys.exit("bench: make -C workloads/mpi first")
    found = {}
    for line, (hosts, how) in LINES.items():
        runs = []
        for _ in range(3):
            on = ["--host", ",".join(f"n{host}" for host in hosts), "--bind-to", "none", "-n", str(len(hosts))]
            ran = cluster.run(["timeout", "-s", "KILL", "300", f"{place}/on", "n0", "mpirun", *on, program, how])
            if ran.returncode != 0:
                sys.exit(f"bench: {line}: {cluster.said(ran.stderr)}")
            runs.append(dict(map(float, row.split()) for row in ran.stdout.splitlines()))
        found[line] = {length: statistics.median(run[length] for run in runs) for length in runs[0]}
    return found


def figure_1(found):
    """The figure as a table, in Markdown: a column a line."""
    size = lambda length: f"{length // 1024:.0f} KiB" if length >= 1024 else f"{length:.0f} B"
    text = "## Figure 1: bandwidth by message length, Mbit/s\n\n| length | " + " | ".join(LINES) + " |\n|---|" + "---|" * len(LINES) + "\n"
    for length in found[next(iter(LINES))]:
        text += f"| {size(length)} | " + " | ".join(f"{found[line][length]:.1f}" for line in LINES) + " |\n"
    return text


def speedups(entry):
    """Estimated by Figure 4, by cohabit's own estimate, and actual, as shares of the run; none where too little was measured."""
    if entry["alike"]:
        return 0.0, 0.0, 0.0
    runs = cluster.cluster_tables.seconds(entry)
    if any(len(runs.get(mapping, [])) < 3 for mapping in MAPPINGS):
        return None
    saved = [1 - of["greedy"] / of["linear"] if of["linear"] else 0.0 for of in (entry["figure_4"], entry["estimated"])]
    greedy, linear = (statistics.median(runs[mapping]) for mapping in ("greedy", "linear"))
    share = entry["share"] or 1.0
    return saved[0] * share, saved[1] * share, 1 - greedy / linear


def same_way(estimated, actual):
    """The report's predictability: both go the same way, or neither goes further than the error."""
    if abs(estimated) < ERROR or abs(actual) < ERROR:
        return abs(estimated - actual) < ERROR
    return (estimated > 0) == (actual > 0)


def tables(results):
    """Figure 7's table, Figure 9's, and what the report says of both, in Markdown."""
    percent = lambda value: f"{100 * value:+.1f} %"
    rows, of_all = [], []
    for name, entry in sorted(results.items()):
        found = speedups(entry)
        if found is None:
            continue
        figure_4, own, actual = found
        of_all.append((name, found))
        runs = min((len(times) for times in entry["times"].values()), default=0)
        alike = "the same mapping" if entry["alike"] else "yes" if same_way(figure_4, actual) else "no"
        rows.append(f"| {name} | {entry['ranks']} | {percent(figure_4)} | {percent(own)} | {percent(actual)} | {alike} | {runs} |")
    text = "## Figure 7: estimated and actual speedup of greedy over linear\n\n"
    text += "| program | ranks | estimated (Figure 4) | estimated (cohabit) | actual | predictable | runs |\n|---|---|---|---|---|---|---|\n"
    text += "\n".join(rows) + "\n\n"
    differing = [(name, found) for name, found in of_all if not results[name]["alike"]]
    if differing:
        for title, which in (("Figure 4's estimator", 0), ("cohabit's estimate (docs/estimator.md)", 1)):
            right = sum(same_way(found[which], found[2]) for _, found in differing)
            off = statistics.median(abs(found[which] - found[2]) for _, found in differing)
            text += f"- Predictable by {title}: {right} of {len(differing)}; median distance from the actual speedup {100 * off:.1f} points.\n"
    chosen = [(name, found) for name, found in differing if found[0] > 0]
    text += "\n## Figure 9: greedy where a speedup is estimated\n\n"
    if chosen:
        best = max(chosen, key=lambda one: one[1][2])
        slower = [f"{name} ({percent(found[2])})" for name, found in chosen if found[2] < 0]
        mean = statistics.mean(found[2] for _, found in chosen)
        text += "| | report | here |\n|---|---|---|\n"
        text += f"| configurations | 25 | {len(chosen)} |\n| mean speedup | 10 % | {percent(mean)} |\n"
        text += f"| best | 35.3 % (RF-CTH, 15 tasks) | {percent(best[1][2])} ({best[0]}) |\n"
        text += f"| slower | 3 (two by less than 1 %, one by 5.9 %) | {len(slower)}{': ' + ', '.join(slower) if slower else ''} |\n"
    else:
        text += "No configuration has an estimated speedup above zero.\n"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--npb", metavar="BIN")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--programs", metavar="NAME,NAME...")
    parser.add_argument("--keep", metavar="DIR")
    parser.add_argument("--tables", metavar="DIR")
    parser.add_argument("--page", metavar="FILE")
    parser.add_argument("--bandwidth", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench") as temporary:
        place, folder = f"{temporary}/c", os.path.abspath(arguments.tables or arguments.keep or temporary)
        results = cluster.kept(folder)
        if not arguments.tables:
            cluster.stop_by_signals()
            with cluster.created(place) as own_pus:
                if own_pus is None:
                    return 0
                if arguments.bandwidth:
                    print(figure_1(bandwidths(place)))
                    return 0
                measure_all(arguments, place, own_pus, folder, results)
    text = tables(results)
    if arguments.page:
        with open(arguments.page, "w", encoding="utf-8") as file:
            file.write(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

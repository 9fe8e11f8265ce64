#!/usr/bin/env python3
"""What mappings of MPI ranks over several hosts are worth, measured on the emulated cluster (workloads/cluster) of the
IBM report, as Markdown tables for docs/benchmarks-mpi.md.

    benches/cluster.py [--npb NPB3.3-MPI/bin] [--minutes 30] [--random 6] [--shuffled 3] [--programs a,b] [--keep DIR]

Each program is profiled once, on the linear mapping. Then it runs under each mapping by turns, in an order that
changes from round to round, until the time is up: linear (ranks fill one host after the other, which is what Open MPI
does by slot), by node (one rank a host at a time), random ones, linear with the ranks' numbers shuffled, and cohabit's,
by distance (`best`) and by estimated time; "taken" is the one that `cohabit evaluate` advises. All are started by
`cohabit run --mapping`, so all are bound alike. Where the machine has 16 PUs or more, each host has two to itself. Medians and ranges (least to most) of at least three runs. Of the random
mappings all run in the first round, and from then on those that were fastest in it.

Programs: our stencil (workloads/mpi/halo.c) and LAMMPS (Debian package lammps) always, the NAS Parallel Benchmarks
where their binaries are given (any of NAME.CLASS.RANKS). `--keep` keeps profiles, mappings and measurements, and goes on from them.
Root; python3, iproute2, Open MPI.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CLUSTER = f"{ROOT}/workloads/cluster/cluster.py"
HOSTS, PUS = 8, 2
# Below this share of the run, or of the communication, `cohabit run` takes a gain for none.
LEAST_GAIN, LEAST_SAVED = 0.01, 0.05
# DT takes its graph as an argument, and the graph says how many ranks.
DATA_TRAFFIC = {"dt.S": ("SH", 12), "dt.W": ("BH", 11)}
# Its main returns 1 where all went well.
STATUS_OF_DATA_TRAFFIC = 1
# So many of the random mappings run in every round.
FASTEST = 3
TOOK = re.compile(r"(?:Time in seconds\s*=|Loop time of)\s*([0-9.]+)")
MELT = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 32 0 16 0 8
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neigh_modify every 20 delay 0 check no
fix 1 all nve
run 50
"""


def cohabit():
    """COHABIT, else what was built last."""
    built = [f"{ROOT}/target/{kind}/cohabit" for kind in ("release", "debug")]
    built = sorted((path for path in built if os.path.exists(path)), key=os.path.getmtime)
    path = os.environ.get("COHABIT") or (built[-1] if built else sys.exit("bench: build cohabit first (make)"))
    # The programs run in folders of their own.
    return os.path.abspath(path)


def programs(arguments, folder):
    """Name, ranks and words of what is to run."""
    found = {}
    halo = f"{ROOT}/build/workloads/mpi/halo-openmpi"
    if not os.path.exists(halo):
        sys.exit("bench: make -C workloads/mpi first")
    for ranks in (8, 16):
        found[f"halo2d.{ranks}"] = (ranks, [halo, "20", "65536", "2"])
        found[f"halo3d.{ranks}"] = (ranks, [halo, "20", "32768", "3"])
    lammps = shutil.which("lmp")
    if lammps:
        with open(f"{folder}/melt.lmp", "w", encoding="ascii") as file:
            file.write(MELT)
        for ranks in (8, 16):
            found[f"lammps.{ranks}"] = (ranks, [lammps, "-log", "none", "-in", f"{folder}/melt.lmp"])
    else:
        print("skipped: LAMMPS is not installed (Debian package lammps)", file=sys.stderr)
    if arguments.npb:
        for name in sorted(os.listdir(arguments.npb)):
            ranks = name.rsplit(".", 1)[-1]
            if name in DATA_TRAFFIC:
                graph, ranks = DATA_TRAFFIC[name]
                found[f"{name}.{graph}.{ranks}"] = (ranks, [f"{os.path.abspath(arguments.npb)}/{name}", graph])
            elif ranks.isdigit() and 4 < int(ranks) <= HOSTS * PUS:
                found[name] = (int(ranks), [f"{os.path.abspath(arguments.npb)}/{name}"])
    else:
        print("skipped: the NAS Parallel Benchmarks are not ours: name their binaries with --npb", file=sys.stderr)
    if arguments.programs:
        return {name: found[name] for name in arguments.programs.split(",") if name in found}
    return found


def slots(kind, ranks, seed):
    """The slot (host * 2 + PU) of each rank."""
    order = list(range(ranks))
    generator = random.Random(f"{kind} {ranks} {seed}")
    if kind == "shuffled":
        generator.shuffle(order)
    elif kind == "random":
        order = generator.sample(range(HOSTS * PUS), ranks)
    elif kind == "by node":
        order = [rank % HOSTS * PUS + rank // HOSTS for rank in range(ranks)]
    return order


def run(words, **options):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, **options)


def said(text):
    """The line of an error that tells most: cohabit's, else the first that is more than a rule."""
    lines = [line for line in text.splitlines() if line.strip("-= ")]
    return next((line for line in lines if line.startswith("cohabit:")), (lines or ["it failed"])[0])


class Bench:
    """One program with its profile and mappings."""

    def __init__(self, cluster, own_pus, folder, name, ranks, words):
        self.cluster, self.own_pus = cluster, own_pus
        self.folder, self.name, self.ranks, self.words = f"{folder}/{name}", name, ranks, words
        self.status = STATUS_OF_DATA_TRAFFIC if name.startswith("dt.") else 0
        os.makedirs(self.folder, exist_ok=True)

    def on(self, *words):
        return run(["timeout", "-s", "KILL", "300", f"{self.cluster}/on", "n0", *words], cwd=self.folder)

    def prepare(self, random_count, shuffled_count):
        """Profiles the program and makes the mappings; false, said aloud, where it does not run."""
        topology = ["--topology", f"{self.cluster}/cluster.toml"]
        made = [("linear", ["--mapper", "packed"]), ("best", []), ("time", ["--objective", "time"])]
        if not all(os.path.exists(f"{self.folder}/{mapping}.json") for mapping, _ in made):
            launch = ["mpirun", "--hostfile", f"{self.cluster}/hostfile", "--bind-to", "none", "-n", str(self.ranks)]
            ran = self.on(cohabit(), "profile", "-o", "p.npz", "--", *launch, *self.words)
            if ran.returncode != self.status:
                print(f"skipped: {self.name}: {said(ran.stderr)}", file=sys.stderr)
                return False
            for mapping, options in made:
                ran = run([cohabit(), "map", "p.npz", *topology, *options, "-o", f"{mapping}.json"], cwd=self.folder)
                if ran.returncode != 0:
                    sys.exit(f"bench: {self.name}, {mapping}: {ran.stderr}")
        with open(f"{self.folder}/linear.json", encoding="utf-8") as file:
            linear = json.load(file)
        kinds = [("by node", 0)] + [("random", n) for n in range(random_count)]
        kinds += [("shuffled", n) for n in range(shuffled_count)]
        for kind, seed in kinds:
            for task, slot in zip(linear["tasks"], slots(kind, self.ranks, seed)):
                task["host"], task["pu"] = f"n{slot // PUS}", slot if self.own_pus else slot % PUS
            with open(f"{self.folder}/{kind} {seed}.json", "w", encoding="utf-8") as file:
                json.dump(linear, file)
        self.mappings = ["linear", "best", "time"] + [f"{kind} {seed}" for kind, seed in kinds]
        return True

    def estimates(self):
        """Estimated seconds by mapping, the share of the run that is spent in MPI, and which mapping cohabit takes."""
        files = [f"{mapping}.json" for mapping in self.mappings[1:]]
        words = [cohabit(), "evaluate", "p.npz", "--topology", f"{self.cluster}/cluster.toml", "--json", "-"]
        for file in files:
            words += ["--mapping", file]
        found = run(words, cwd=self.folder)
        if found.returncode != 0:
            sys.exit(f"bench: {self.name}: {found.stderr}")
        found = json.loads(found.stdout)
        seconds = [mapping["estimated_seconds"] for mapping in found["mappings"]]
        # What `cohabit run` takes: its own mapping where a gain is predicted, else the default one.
        words = words[:words.index("--mapping")] + ["--mapping", "time.json"]
        chosen = "linear" if json.loads(run(words, cwd=self.folder).stdout)["advised"] is None else "time"
        return {"estimates": dict(zip(self.mappings, seconds)), "share": found["mpi_share"], "chosen": chosen}

    def measure(self, mapping):
        """Seconds as the program says; none where it failed, or ranks were not where they were to be."""
        launch = ["mpirun", "-n", str(self.ranks)]
        ran = self.on(cohabit(), "run", "--mapping", f"{mapping}.json", "--", *launch, *self.words)
        took = TOOK.search(ran.stdout)
        if ran.returncode != self.status or not took or "cohabit: rank" in ran.stderr:
            print(f"bench: {self.name}, {mapping}: {said(ran.stderr)}", file=sys.stderr)
            return None
        return float(took.group(1))


def due(mappings, times):
    """The mappings that run in this round: all but the slow ones of the random mappings that have run."""
    drawn = [name for name in mappings if name.startswith("random") and times.get(name)]
    drawn.sort(key=lambda name: times[name][0])
    return [name for name in mappings if name not in drawn[FASTEST:]]


def measure_all(arguments, cluster, own_pus, folder, results):
    """Round after round until the time is up."""
    deadline = time.monotonic() + 60 * arguments.minutes
    benches = []
    for name, (ranks, words) in programs(arguments, folder).items():
        bench = Bench(cluster, own_pus, folder, name, ranks, words)
        if bench.prepare(arguments.random, arguments.shuffled):
            entry = results.setdefault(name, {"ranks": ranks, "times": {}})
            entry.update(bench.estimates())
            benches.append(bench)
            save(folder, results)
    number = 0
    while benches:
        generator = random.Random(number)
        for bench in benches:
            times = results[bench.name]["times"]
            mappings = due(bench.mappings, times)
            for mapping in generator.sample(mappings, len(mappings)):
                if time.monotonic() > deadline:
                    return
                took = bench.measure(mapping)
                if took is not None:
                    times.setdefault(mapping, []).append(took)
                    save(folder, results)
        number += 1


def save(folder, results):
    with open(f"{folder}/results.json.new", "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    os.replace(f"{folder}/results.json.new", f"{folder}/results.json")


def judged(entry):
    """The runs that count, of mappings with three and more. The run that a random mapping was chosen by is none."""
    runs = {name: runs[name.startswith("random"):] for name, runs in entry["times"].items()}
    return {name: times for name, times in runs.items() if len(times) >= 3}


def median_of(times, kind):
    """Of all mappings of a kind, the median of each."""
    return [statistics.median(times[name]) for name in times if name.split(" ")[0] == kind]


def gains_over_shuffled(entry, times):
    """What cohabit's mapping gains over each shuffled linear one; 0 where no gain is predicted: that one stays then."""
    found = []
    for mapping in times:
        if mapping.startswith("shuffled"):
            saved = 1 - entry["estimates"]["time"] / entry["estimates"][mapping]
            gain = 1 - statistics.median(times["time"]) / statistics.median(times[mapping])
            is_gain = saved >= LEAST_SAVED and saved * (entry["share"] or 1.0) >= LEAST_GAIN
            found.append(gain if is_gain else 0.0)
    return found


def differ(one, other):
    """Measurably: no run of one is among those of the other."""
    return max(one) < min(other) or max(other) < min(one)


def cell(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def row(name, entry, times):
    """A program's row of the first table."""
    linear = statistics.median(times["linear"])
    ours = statistics.median(times[entry["chosen"]])
    first = [runs[0] for mapping, runs in entry["times"].items() if mapping.startswith("random")]
    fastest = min(median_of(times, "random"), default=float("nan"))
    drawn = f"{fastest:.2f}; {statistics.median(first):.2f} of {len(first)}" if first else "-"
    others = [linear, statistics.median(times["by node 0"])] + median_of(times, "random")
    shuffled = median_of(times, "shuffled")
    renumbered = statistics.mean(shuffled) if shuffled else float("nan")
    over_shuffled = statistics.mean(gains_over_shuffled(entry, times) or [float("nan")])
    fields = [name, f"{entry['share'] or 0:.0%}", str(min(len(runs) for runs in times.values())), cell(times["linear"]),
              cell(times["by node 0"]), drawn, f"{renumbered:.2f}", cell(times["best"]), cell(times["time"]),
              entry["chosen"], f"{1 - ours / linear:+.0%}", f"{ours / min(others) - 1:+.0%}", f"{over_shuffled:+.0%}"]
    return f"| {' | '.join(fields)} |", over_shuffled


def directions(entry, times):
    """Of the pairs of mappings that differ measurably: how many, how many the estimate orders rightly, and how many it
    takes for equal, which is not right."""
    pairs = right = equal = 0
    known = [mapping for mapping in times if mapping in entry["estimates"]]
    for at, one in enumerate(known):
        for other in known[at + 1:]:
            if differ(times[one], times[other]):
                estimates = [entry["estimates"][mapping] for mapping in (one, other)]
                faster = statistics.median(times[one]) < statistics.median(times[other])
                same = abs(estimates[0] - estimates[1]) <= LEAST_GAIN * max(estimates)
                pairs += 1
                equal += same
                right += not same and faster == (estimates[0] < estimates[1])
    return pairs, right, equal


def tables(results):
    """The tables of what ran three times and more, and what was wanted."""
    lines = ["| program, ranks | in MPI | runs | linear | by node | random: fastest; median | linear, shuffled | best "
             "| by time | taken | gain over linear | over the fastest | gain over shuffled |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    figure = ["| program, ranks | mapping | estimated gain | actual gain |", "|---|---|---|---|"]
    direction = ["| program, ranks | pairs that differ | right | estimated equal |", "|---|---|---|---|"]
    sums, gains = [0, 0, 0], []
    for name, entry in results.items():
        times = judged(entry)
        if any(kind not in times for kind in ("linear", "best", "time", "by node 0")):
            continue
        line, gain = row(name, entry, times)
        lines.append(line)
        gains.append(gain)
        linear = statistics.median(times["linear"])
        estimates, share = entry["estimates"], entry["share"] or 1.0
        for mapping in ("time", "best", "by node 0"):
            estimated = (1 - estimates[mapping] / estimates["linear"]) * share
            actual = 1 - statistics.median(times[mapping]) / linear
            figure.append(f"| {name} | {mapping.removesuffix(' 0')} | {estimated:+.1%} | {actual:+.1%} |")
        counts = directions(entry, times)
        direction.append(f"| {name} | {counts[0]} | {counts[1]} | {counts[2]} |")
        sums = [sum(both) for both in zip(sums, counts)]
    summary = []
    if gains:
        mean = statistics.mean(gains)
        summary.append(f"Gain over linear with shuffled numbers, mean over {len(gains)} programs: {mean:+.1%}.")
    if sums[0]:
        summary.append(f"Direction right in {sums[1]} of {sums[0]} pairs of mappings that differ measurably "
                       f"({sums[1] / sums[0]:.0%}), {sums[2]} estimated equal.")
    return "\n".join(lines + [""] + figure + [""] + direction + [""] + summary)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--npb", metavar="BIN")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--random", type=int, default=6)
    parser.add_argument("--shuffled", type=int, default=3)
    parser.add_argument("--programs", metavar="NAME,NAME...")
    parser.add_argument("--keep", metavar="DIR")
    arguments = parser.parse_args()
    # So that the cluster is removed.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    results = {}
    with tempfile.TemporaryDirectory(prefix="bench") as temporary:
        cluster, folder = f"{temporary}/c", os.path.abspath(arguments.keep or temporary)
        os.makedirs(folder, exist_ok=True)
        if os.path.exists(f"{folder}/results.json"):
            with open(f"{folder}/results.json", encoding="utf-8") as file:
                results = json.load(file)
        own_pus = (os.cpu_count() or 1) >= HOSTS * PUS
        made = run([sys.executable, CLUSTER] + ["--own-pus"] * own_pus + ["create", cluster])
        if made.returncode != 0:
            print(f"skipped: {made.stderr.strip()}", file=sys.stderr)
            return 0
        try:
            measure_all(arguments, cluster, own_pus, folder, results)
        finally:
            run([sys.executable, CLUSTER, "destroy", cluster])
    print(tables(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What mappings of MPI ranks over several hosts are worth, measured on the emulated cluster (workloads/cluster) of the
IBM report, as Markdown tables for benches/cluster.md.

    benches/cluster.py [--npb NPB3.3-MPI/bin] [--rounds 4] [--minutes 30] [--random 6] [--shuffled 3]
                       [--first 0] [--programs 'lu.*,*.16'] [--whole] [--keep DIR]
    benches/cluster.py --tables DIR               the tables of what was kept there, measuring nothing

Each program is profiled once, on the linear mapping. Then it runs under each mapping by turns, in an order that
changes from round to round, until there were as many rounds or the time is up: linear (ranks fill one host after the
other, which is what Open MPI does by slot), by node (one rank a host at a time), random ones, linear with the ranks'
numbers shuffled, and cohabit's, by distance (`best`) and by estimated time; "taken" is the one that `cohabit evaluate`
advises. All are started by `cohabit run --mapping`, so all are bound alike, and the machine's processors are dealt
evenly to ranks that have an emulated host to themselves. Mappings that differ only in which of like
hosts is which run as one. Where the machine has 16 PUs or more, each host has two to itself. Of more than three random
mappings all run in the first round, and from then on those that were fastest in it, of whom that run does not count.

Programs: our stencil (workloads/mpi/halo.c) and LAMMPS (Debian package lammps) always, the NAS Parallel Benchmarks
where their binaries are given (NAME.CLASS.RANKS of 2 to 16 ranks, and DT's). BT, SP and LU take fewer time steps of class W (STEPS), or all
of them (--whole). `--keep` keeps profiles, mappings and measurements, and goes on from them.
Root; python3, iproute2, Open MPI.
"""

import argparse
import contextlib
import fnmatch
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import cluster_tables

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CLUSTER = f"{ROOT}/workloads/cluster/cluster.py"
HOSTS, FIRST_SUBNET, PUS = 8, 5, 2
# DT takes its graph as an argument: black hole, white hole, shuffle. The graph says how many ranks.
DATA_TRAFFIC = {"dt.S": {"BH": 5, "WH": 5, "SH": 12}, "dt.W": {"BH": 11, "WH": 11}}
# Its main returns 1 where all went well.
STATUS_OF_DATA_TRAFFIC = 1
# Time steps instead of class W's 200, 400 and 300, so that each run takes seconds: every step sends the same.
STEPS = {"bt": 20, "sp": 20, "lu": 30}
INPUTS = {
    "bt": "{steps}\n0.0008d0\n24 24 24\n",
    "sp": "{steps}\n0.0015d0\n36 36 36\n",
    # Two lines of words before each line of numbers.
    "lu": "\n\n1 {steps}\n\n\n{steps}\n\n\n1.5d-3\n\n\n1.2d0\n\n\n1d-8 1d-8 1d-8 1d-8 1d-8\n\n\n33 33 33\n",
}
TOOK = re.compile(r"(?:Time in seconds\s*=|Loop time of)\s*([0-9.]+)")
RATE = re.compile(r"Mop/s total\s*=\s*([0-9.]+)")
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
            binary, ranks = f"{os.path.abspath(arguments.npb)}/{name}", name.rsplit(".", 1)[-1]
            for graph, nodes in DATA_TRAFFIC.get(name.removesuffix(".x"), {}).items():
                found[f"{name.removesuffix('.x')}.{graph}.{nodes}"] = (nodes, [binary, graph])
            if ranks.isdigit() and 2 <= int(ranks) <= HOSTS * PUS:
                found[name] = (int(ranks), [binary])
    else:
        print("skipped: the NAS Parallel Benchmarks are not ours: name their binaries with --npb", file=sys.stderr)
    if arguments.programs:
        wanted = arguments.programs.split(",")
        return {name: found[name] for name in found if any(fnmatch.fnmatch(name, pattern) for pattern in wanted)}
    return found


def places(slots):
    """Which ranks are on each host of each subnet: two mappings with the same are alike."""
    hosts = {}
    for rank, slot in enumerate(slots):
        hosts.setdefault(slot // PUS, []).append(rank)
    return [sorted(ranks for host, ranks in hosts.items() if (host < FIRST_SUBNET) == first) for first in (True, False)]


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


def deal(tasks):
    """Gives the ranks that have a host to themselves its processors by turns: the emulated hosts share the machine's, and
    which of them such a rank has would else be chance."""
    hosts = [task["host"] for task in tasks]
    alone = [task for task in tasks if hosts.count(task["host"]) == 1]
    for number, task in enumerate(alone):
        task["pu"] = number % PUS


def run(words, **options):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, **options)


def said(text):
    """The line of an error that tells most: cohabit's, else the first that is more than a rule."""
    lines = [line for line in text.splitlines() if line.strip("-= ")]
    return next((line for line in lines if line.startswith("cohabit:")), (lines or ["it failed"])[0])


class Bench:
    """One program with its profile and mappings."""

    def __init__(self, cluster, own_pus, folder, name, ranks, words, whole):
        self.cluster, self.own_pus = cluster, own_pus
        self.folder, self.name, self.ranks, self.words = f"{folder}/{name}", name, ranks, words
        self.status = STATUS_OF_DATA_TRAFFIC if name.startswith("dt.") else 0
        os.makedirs(self.folder, exist_ok=True)
        kind, size = (name.split(".") + [""])[:2]
        if kind in INPUTS and size == "W" and not whole:
            with open(f"{self.folder}/input{kind}.data", "w", encoding="ascii") as file:
                file.write(INPUTS[kind].format(steps=STEPS[kind]))

    def on(self, *words):
        return run(["timeout", "-s", "KILL", "300", f"{self.cluster}/on", "n0", *words], cwd=self.folder)

    def prepare(self, random_count, shuffled_count, first):
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
        kinds = [("by node", 0)] + [("random", first + n) for n in range(random_count)]
        kinds += [("shuffled", first + n) for n in range(shuffled_count)]
        for kind, seed in kinds:
            for task, slot in zip(linear["tasks"], slots(kind, self.ranks, seed)):
                task["host"], task["pu"] = f"n{slot // PUS}", slot if self.own_pus else slot % PUS
            with open(f"{self.folder}/{kind} {seed}.json", "w", encoding="utf-8") as file:
                json.dump(linear, file)
        self.mappings = ["linear", "best", "time"] + [f"{kind} {seed}" for kind, seed in kinds]
        for mapping in [] if self.own_pus else self.mappings:
            with open(f"{self.folder}/{mapping}.json", encoding="utf-8") as file:
                placed = json.load(file)
            deal(placed["tasks"])
            with open(f"{self.folder}/{mapping}.json", "w", encoding="utf-8") as file:
                json.dump(placed, file)
        return True

    def alike(self):
        """The mappings that are another one but for which of like hosts is which, each with that one."""
        first, found = [], {}
        for mapping in self.mappings:
            with open(f"{self.folder}/{mapping}.json", encoding="utf-8") as file:
                tasks = json.load(file)["tasks"]
            here = places([int(task["host"][1:]) * PUS + task["pu"] % PUS for task in tasks])
            same = [other for other, there in first if there == here]
            if same:
                found[mapping] = same[0]
            else:
                first.append((mapping, here))
        return found

    def estimates(self):
        """Estimated seconds (also with phases all at once and one by one), how full ports are and distance cost by mapping,
        the share of the run that is spent in MPI, which mapping cohabit takes, and which are alike."""
        files = [f"{mapping}.json" for mapping in self.mappings[1:]]
        words = [cohabit(), "evaluate", "p.npz", "--topology", f"{self.cluster}/cluster.toml", "--json", "-"]
        for file in files:
            words += ["--mapping", file]
        found = run(words, cwd=self.folder)
        if found.returncode != 0:
            sys.exit(f"bench: {self.name}: {found.stderr}")
        found = json.loads(found.stdout)
        estimates = {name: mapping["estimated_seconds"] for name, mapping in zip(self.mappings, found["mappings"])}
        norms = {name: mapping["norm_seconds"] for name, mapping in zip(self.mappings, found["mappings"])}
        extremes = {name: mapping["extreme_seconds"] for name, mapping in zip(self.mappings, found["mappings"])}
        distances = {name: int(mapping["distance_cost"]) for name, mapping in zip(self.mappings, found["mappings"])}
        # What `cohabit run` takes: its own mapping where a gain is predicted, else the default one.
        words = words[:words.index("--mapping")] + ["--mapping", "time.json"]
        chosen = "linear" if json.loads(run(words, cwd=self.folder).stdout)["advised"] is None else "time"
        chosen = self.alike().get(chosen, chosen)
        return {"estimates": estimates, "extremes": extremes, "norms": norms, "distances": distances,
                "share": found["mpi_share"], "replayed": found["replayed"], "chosen": chosen, "alike": self.alike()}

    def measure(self, mapping):
        """Seconds, and operations/s, as the program says; none where it failed, or ranks were elsewhere."""
        launch = ["mpirun", "-n", str(self.ranks)]
        ran = self.on(cohabit(), "run", "--mapping", f"{mapping}.json", "--", *launch, *self.words)
        took, rate = TOOK.search(ran.stdout), RATE.search(ran.stdout)
        if ran.returncode != self.status or not took or "cohabit: rank" in ran.stderr:
            print(f"bench: {self.name}, {mapping}: {said(ran.stderr)}", file=sys.stderr)
            return None
        return [float(took.group(1)), float(rate.group(1)) if rate else None]


def due(mappings, entry):
    """The mappings that run in this round: all but the slow ones of the random mappings that have run, and those that
    are like another one."""
    times = entry["times"]
    mappings = [name for name in mappings if name not in entry["alike"]]
    drawn = [name for name in mappings if name.startswith("random") and times.get(name)]
    drawn.sort(key=lambda name: times[name][0])
    return [name for name in mappings if name not in drawn[cluster_tables.FASTEST:]]


def measure_all(arguments, cluster, own_pus, folder, results):
    """Round after round, so many or until the time is up."""
    deadline = time.monotonic() + 60 * arguments.minutes
    benches = []
    for name, (ranks, words) in programs(arguments, folder).items():
        bench = Bench(cluster, own_pus, folder, name, ranks, words, arguments.whole)
        if bench.prepare(arguments.random, arguments.shuffled, arguments.first):
            entry = results.setdefault(name, {"ranks": ranks, "times": {}})
            entry.update(bench.estimates())
            benches.append(bench)
            save(folder, results)
    for number in range(arguments.rounds):
        generator = random.Random(number)
        for bench in benches:
            times = results[bench.name]["times"]
            mappings = due(bench.mappings, results[bench.name])
            for mapping in generator.sample(mappings, len(mappings)):
                if time.monotonic() > deadline:
                    return
                took = bench.measure(mapping)
                if took is not None:
                    times.setdefault(mapping, []).append(took)
                    save(folder, results)


def save(folder, results):
    with open(f"{folder}/results.json.new", "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    os.replace(f"{folder}/results.json.new", f"{folder}/results.json")


def kept(folder):
    """What was measured already and is kept in a folder, which is made."""
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(f"{folder}/results.json"):
        return {}
    with open(f"{folder}/results.json", encoding="utf-8") as file:
        return json.load(file)


@contextlib.contextmanager
def created(cluster):
    """The emulated cluster, for as long as it is needed: whether each host has PUs to itself; none, said aloud, without it."""
    own_pus = (os.cpu_count() or 1) >= HOSTS * PUS
    # With this Open MPI sends the first 64 KiB without asking (docs/mpi.md).
    direct = os.environ.get("OMPI_MCA_btl_tcp_flags") == "send"
    options = ["--own-pus"] * own_pus + ["--asks-from", ""] * direct
    made = run([sys.executable, CLUSTER, *options, "create", cluster])
    if made.returncode != 0:
        print(f"skipped: {made.stderr.strip()}", file=sys.stderr)
        yield None
        return
    try:
        yield own_pus
    finally:
        run([sys.executable, CLUSTER, "destroy", cluster])


def stop_by_signals():
    """Ends by an exception, so that the cluster is removed."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--npb", metavar="BIN")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--random", type=int, default=6)
    parser.add_argument("--shuffled", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, metavar="SEED",
                        help="seed of the first random and shuffled mapping (0)")
    parser.add_argument("--programs", metavar="NAME,NAME...")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--keep", metavar="DIR")
    parser.add_argument("--tables", metavar="DIR")
    arguments = parser.parse_args()
    if arguments.tables:
        with open(f"{arguments.tables}/results.json", encoding="utf-8") as file:
            print(cluster_tables.tables(json.load(file)))
        return 0
    stop_by_signals()
    with tempfile.TemporaryDirectory(prefix="bench") as temporary:
        cluster, folder = f"{temporary}/c", os.path.abspath(arguments.keep or temporary)
        results = kept(folder)
        with created(cluster) as own_pus:
            if own_pus is None:
                return 0
            measure_all(arguments, cluster, own_pus, folder, results)
    print(cluster_tables.tables(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What online detection sees of a program's pattern, beside the exact profile of the same program.

    benches/online-patterns.py [--seconds S] [--threads N] [--skip N] [--exact NAME=PROGRAM ...] [--options "..."] NAME=PROGRAM ...
    benches/online-patterns.py --known [--threads N] [--options "..."] PATTERN=ROUNDS ...
    benches/online-patterns.py --ranks [--seconds S] [--options "..."] NAME="mpirun -n N PROGRAM" ...

A NAME is one of NPB's (bt, sp, lu, ua of class A, mg of class B) or anything else. NPB's read their number of iterations from a
file: many for online detection, so that one run lasts S seconds of CPU time a thread (default 10) and more, and few for the
exact profile. Other programs are run as they are, again and again until that time is used, their events added; --exact gives a
shorter run of one for the exact profile. --skip leaves out the first N tasks, as a process that only starts others.

Printed, one line a program: Pearson's correlation over the pairs i < j of what online detection saw with the exact sharing and
with the exact communication (all symmetric), how many events that rests on, and the distance cost of the mapping computed from
it over that of the mapping computed from the exact sharing, both under the exact sharing, on machines of 2x2x2 and 2x4x1 with
level costs 100,10,1. Sharing is counted in windows of a second: where threads take turns on few PUs, a window of a millisecond
says which two of them ran at the time, and not what they share. Between processes there is none in an exact profile, and the exact
communication stands for it in the mappings.

With --known the programs are patterns of workloads/ on a megabyte for each thread, of which it is known who communicates with
whom. Printed: how many events the pairs that communicate have, the least and on average, those that only read the same, and those
that share nothing, the most and on average; and correlations as above.

With --ranks the programs are MPI launchers with their ranks, up to eight, run again and again until S seconds of wall time have passed. They are compared with
what the library of `cohabit profile` counts in a run of its own: bytes, and messages.

Needs NumPy, root for hint faults, and COHABIT (default: target/release/cohabit).
"""
import argparse, json, os, resource, shlex, subprocess, sys, tempfile, time
from pathlib import Path

import numpy as np

COHABIT = os.path.abspath(os.environ.get("COHABIT", "target/release/cohabit"))
# File, and its text for a number of iterations; how many for online detection, and for the exact profile.
INPUTS = {
    "bt": ("inputbt.data", "{}\n0.0008d0\n64 64 64\n", 350, 8),
    "sp": ("inputsp.data", "{}\n0.0015d0\n64 64 64\n", 1400, 12),
    "lu": ("inputlu.data", "c\nc\n1 250\nc\nc\n{}\nc\nc\n2.0e+00\nc\nc\n1.2\nc\nc\n1.0e-08 1.0e-08 1.0e-08 1.0e-08 1.0e-08\n"
                           "c\nc\n64 64 64\n", 22, 8),
    "ua": ("inputua.data", "5\n{}\n10\n0.076d0\n", 200, 60),
    "mg": ("mg.input", "8\n256 256 256\n{}\n0 0 0 0 0 0 0 0\n", 300, 2),
}
# Topology and level costs: where a level has one child, its cost is never paid.
MACHINES = {"2x2x2": ("package:2 core:2 pu:2", "100,10,1"), "2x4x1": ("package:2 core:4 pu:1", "100,10")}


def run(line, **more):
    """CPU seconds of a command; ends the script where it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode:
        sys.exit(f"{shlex.join(map(str, line))}: status {ran.returncode}\n{ran.stderr[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ran.stdout


def matrix(path, name, threads, skip=0):
    """A matrix of a profile made symmetric, of its first tasks but for some: the program's threads in the order they were started in."""
    whole = np.load(path)[name].astype(float)[skip:, skip:]
    whole = np.pad(whole, (0, max(0, threads - len(whole))))[:threads, :threads]
    return whole + whole.T


def correlation(a, b):
    pairs = np.triu_indices(len(a), 1)
    spread = a[pairs].std() * b[pairs].std()
    return float("nan") if spread == 0 else float(np.corrcoef(a[pairs], b[pairs])[0, 1])


def distance(machine, a, b):
    """Level costs 100, 10, 1 on the last eight PUs."""
    core = 2 if machine == "2x2x2" else 1
    return 0 if a == b else 100 if a // 4 != b // 4 else 10 if a // core != b // core else 1


def mapped(profile, machine, room):
    """The PU of each task."""
    topology, costs = MACHINES[machine]
    run([COHABIT, "map", profile, "--topology", topology, "--level-costs", costs, "-o", room / "map.json"])
    tasks = json.loads((room / "map.json").read_text())["tasks"]
    return {task["task"]: task["pu"] for task in tasks}


def cost(mapping, weights, machine):
    return sum(weights[a, b] * distance(machine, mapping[a], mapping[b]) for a in range(len(weights)) for b in range(a))


def saved(path, counts, threads):
    """A profile file of a matrix alone."""
    np.savez(path, messages=counts.astype(np.uint64), bytes=counts.astype(np.uint64))
    out = path.with_suffix(".profile.npz")
    run([COHABIT, "import", path, "-o", out])
    return out


def compare(name, command, arguments):
    threads, skip = arguments.threads, arguments.skip
    shorter = dict(program.split("=", 1) for program in arguments.exact).get(name)
    exactly = shlex.split(shorter) if shorter else command
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), OMP_WAIT_POLICY="passive")
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        iterations = INPUTS.get(name)
        if iterations:
            file, text, many, few = iterations
            (room / file).write_text(text.format(many))
        seen, cpu, runs = np.zeros((threads, threads)), 0.0, 0
        while cpu < arguments.seconds * threads:
            used, _ = run([COHABIT, "run", "--dry-run", *shlex.split(arguments.options), "-o", room / "online.npz", "--", *command],
                          env=environment, cwd=room)
            seen += matrix(room / "online.npz", "messages", threads, skip)
            cpu, runs = cpu + used, runs + 1
        if iterations:
            (room / file).write_text(text.format(few))
        run([COHABIT, "profile", "--sharing", "--window", "1s", "-o", room / "exact.npz", "--", *exactly], env=environment, cwd=room)
        sharing = matrix(room / "exact.npz", "sharing", threads, skip)
        communication = matrix(room / "exact.npz", "messages", threads, skip)
        if arguments.keep:
            os.makedirs(arguments.keep, exist_ok=True)
            np.savez(Path(arguments.keep) / f"{name}.npz", seen=seen, sharing=sharing, messages=communication)
        exact = sharing if sharing[np.triu_indices(threads, 1)].any() else communication
        profiles = [saved(room / "a.npz", seen, threads), saved(room / "b.npz", exact, threads)]
        ratios = []
        for machine in MACHINES:
            ours, best = (cost(mapped(profile, machine, room), exact, machine) for profile in profiles)
            ratios.append(ours / best if best else float("nan"))
    pairs = seen[np.triu_indices(threads, 1)]
    print(f"| {name} | {runs} | {cpu:.0f} | {int(pairs.sum())} | {correlation(seen, sharing):.3f} | "
          f"{correlation(seen, communication):.3f} | " + " | ".join(f"{ratio:.3f}" for ratio in ratios) + " |", flush=True)


def of_ranks(path):
    """The matrix of a profile, between ranks: of all threads of each."""
    profile = np.load(path)
    tasks = json.loads(bytes(profile["meta"]))["tasks"]
    ranks = [task.get("rank") for task in tasks]
    found = sorted({rank for rank in ranks if rank is not None})
    belongs = np.array([[rank == task for task in ranks] for rank in found], dtype=float)
    both = {name: belongs @ profile[name].astype(float) @ belongs.T for name in ("messages", "bytes")}
    for whole in both.values():
        np.fill_diagonal(whole, 0)
    return {name: whole + whole.T for name, whole in both.items()}


def ranks(name, command, arguments):
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        run([COHABIT, "profile", "-o", room / "exact.npz", "--", *command], cwd=room)
        exact = of_ranks(room / "exact.npz")
        size = len(exact["bytes"])
        seen, passed, cpu = np.zeros((size, size)), 0.0, 0.0
        while passed < arguments.seconds:
            began = time.monotonic()
            used, _ = run([COHABIT, "run", "--dry-run", *shlex.split(arguments.options), "-o", room / "online.npz", "--", *command], cwd=room)
            passed, cpu = passed + time.monotonic() - began, cpu + used
            seen += of_ranks(room / "online.npz")["messages"]
        profiles = [saved(room / "a.npz", seen, size), saved(room / "b.npz", exact["bytes"], size)]
        ratios = []
        for machine in MACHINES:
            ours, best = (cost(mapped(profile, machine, room), exact["bytes"], machine) for profile in profiles)
            ratios.append(ours / best if best else float("nan"))
    pairs = seen[np.triu_indices(size, 1)]
    print(f"| {name} | {size} | {passed:.1f} | {cpu:.0f} | {int(pairs.sum() / 2)} | {correlation(seen, exact['bytes']):.3f} | "
          f"{correlation(seen, exact['messages']):.3f} | " + " | ".join(f"{ratio:.3f}" for ratio in ratios) + " |", flush=True)


def known(pattern, rounds, arguments):
    threads = arguments.threads
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        program = [Path(__file__).resolve().parent.parent / "build/workloads/patterns-pthreads", pattern, "--threads", threads]
        program = [str(word) for word in program + ["--blocks", 16384, "--words", 4, "--seed", 3, "--expect", room / "truth.csv"]]
        cpu, _ = run([COHABIT, "run", "--dry-run", *shlex.split(arguments.options), "-o", room / "online.npz", "--",
                      *program, "--rounds", rounds], cwd=room)
        run([COHABIT, "profile", "--sharing", "--window", "1s", "-o", room / "exact.npz", "--", *program, "--rounds", "20"], cwd=room)
        truth = np.zeros((threads, threads))
        for line in (room / "truth.csv").read_text().splitlines():
            if not line.startswith(("#", "process")):
                _, source, destination, messages, *_ = line.split(",")
                truth[int(source), int(destination)] += float(messages)
        seen, sharing = matrix(room / "online.npz", "messages", threads), matrix(room / "exact.npz", "sharing", threads)
    truth += truth.T
    pairs = np.triu_indices(threads, 1)
    # Each event is in both halves.
    events, talks, shares = seen[pairs] / 2, truth[pairs] > 0, sharing[pairs] > 0
    kinds = [(talks, np.min), (~talks & shares, np.max), (~talks & ~shares, np.max)]
    texts = [f"{extreme(events[kind]):.0f}, {events[kind].mean():.1f}" if kind.any() else "none" for kind, extreme in kinds]
    print(f"| {pattern} | {cpu:.0f} | " + " | ".join(texts) + f" | {correlation(seen, sharing):.3f} | {correlation(seen, truth):.3f} |",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--skip", type=int, default=0, metavar="N", help="leave out the first N tasks")
    parser.add_argument("--exact", action="append", default=[], metavar="NAME=PROGRAM", help="a shorter run, for the exact profile")
    parser.add_argument("--options", default="", help="more options of `cohabit run`")
    parser.add_argument("--keep", help="folder for the matrices")
    parser.add_argument("--known", action="store_true")
    parser.add_argument("--ranks", action="store_true")
    parser.add_argument("programs", nargs="+", metavar="NAME=PROGRAM")
    arguments = parser.parse_args()
    if arguments.known:
        print("| pattern | CPU s | communicating: least, mean | reading the same: most, mean | silent: most, mean | with sharing | with communication |")
        print("|---|---|---|---|---|---|---|")
        for program in arguments.programs:
            known(*program.split("=", 1), arguments)
        return
    if arguments.ranks:
        print("| program | ranks | s | CPU s | events | with bytes | with messages | " + " | ".join(f"J, {machine}" for machine in MACHINES) + " |")
        print("|---|---|---|---|---|---|---|" + "---|" * len(MACHINES))
        for program in arguments.programs:
            name, _, command = program.partition("=")
            ranks(name, shlex.split(command), arguments)
        return
    print("| program | runs | CPU s | events | with sharing | with communication | " +
          " | ".join(f"J, {machine}" for machine in MACHINES) + " |")
    print("|---|---|---|---|---|---|" + "---|" * len(MACHINES))
    for program in arguments.programs:
        name, _, command = program.partition("=")
        compare(name, shlex.split(command), arguments)


main()

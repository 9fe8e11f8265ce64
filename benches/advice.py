#!/usr/bin/env python3
"""How often the advice of `cohabit show` is right, by the simulator's gains, and the limits that would make it right oftenest.

    benches/advice.py measure FOLDER [--npb DIRECTORY] [--patterns DIRECTORY] [--commands FILE] [--machines harpertown,purple,deloc,epyc]
                      [--threads 8] [--jobs 2] [--programs-at-once 1] [--budget SECONDS]
    benches/advice.py fit FOLDER

`measure` profiles and records each program once, maps its profile for each machine in several ways, and simulates all of
these; what is in FOLDER already is used again. `fit` reads FOLDER: what each mapping gains over the mean of three random ones,
and from that what the advice should have been; limits are chosen on half of the programs (those whose name has an even
CRC-32) and judged on the other half. Needs target/release/cohabit (or COHABIT).

What should have been advised, T being simulated time and R the mean of random mappings:
  nothing     neither `best` nor `best --objective congestion` is faster than R by 2 %
  congestion  the latter is, and the former is slower than it by more than 2 %, and no faster than R by 2 %
  both        both are faster than R, and the latter is ahead of the former by more than 2 %
  locality    else
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
COHABIT = os.environ.get("COHABIT", str(ROOT / "target/release/cohabit"))
NOTABLE = 0.02
ARMS = {
    "random-1": ["--mapper", "random", "--seed", "1"],
    "random-2": ["--mapper", "random", "--seed", "2"],
    "random-3": ["--mapper", "random", "--seed", "3"],
    "packed": ["--mapper", "packed"],
    "scatter": ["--mapper", "scatter"],
    "deloc": ["--mapper", "deloc"],
    "best": ["--mapper", "best"],
    "congestion": ["--mapper", "best", "--objective", "congestion"],
}
# Pattern, and what is done between two of its exchanges: from nothing else than communication to next to none.
PATTERNS = {
    "ring": [[], ["--blocks", "64"], ["--blocks", "1"]],
    "pairs-far": [[], ["--blocks", "64"]],
    "pairs-near": [["--blocks", "64"]],
    "all-to-all": [[], ["--blocks", "32"]],
    "stencil-2d": [["--blocks", "16"]],
    "butterfly": [["--blocks", "16"]],
    "master": [["--blocks", "16"]],
    "pipeline": [["--blocks", "32"]],
    "false-sharing": [[]],
    "read-only": [["--blocks", "64"]],
}


def tell(words, to, environment=None, limit=None):
    """Runs cohabit so that `to` exists, whole; None stands for it."""
    if not to.exists():
        part = to.with_name("part-" + to.name)
        words = [part if word is None else word for word in words]
        part.unlink(missing_ok=True)
        # A group of its own: what it starts outlives it where it is killed.
        with subprocess.Popen([COHABIT, *map(str, words)], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True, start_new_session=True) as process:
            try:
                _, said = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)
                part.unlink(missing_ok=True)
                raise RuntimeError(f"{words[0]}: not within {limit:.0f} s") from error
        if not part.exists():
            raise RuntimeError(f"{' '.join(map(str, words))}: {said.strip()[-300:]}")
        part.rename(to)
    return to


def programs(options):
    """Name, number of threads, command."""
    for threads in options.threads:
        if options.npb:
            for path in sorted(options.npb.iterdir()):
                if path.name.endswith(options.klass):
                    yield f"{path.name}-{threads}", threads, [path]
        if options.commands:
            for line in options.commands.read_text().splitlines():
                name, *command = shlex.split(line.replace("THREADS", str(threads)))
                yield f"{name}-{threads}", threads, command
        if options.patterns:
            for name, variants in PATTERNS.items():
                for number, variant in enumerate(variants):
                    command = [options.patterns / "patterns-openmp", name, "--threads", threads, "--rounds", 300, "--everywhere", *variant]
                    yield f"{name}.{number}-{threads}", threads, command


def prepared(folder, limit, name, threads, command):
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
    command = [str(word) for word in command]
    tell(["profile", "-o", None, "--", *command], folder / f"{name}.npz", environment, limit)
    tell(["record", "-o", None, "--", *command], folder / f"{name}.rec", environment, limit)
    tell(["show", folder / f"{name}.npz", "--json", None], folder / f"{name}.show.json")


def topology(machine):
    return re.search(r'^topology = "([^"]*)"', (ROOT / f"testdata/machines/{machine}.toml").read_text(), re.M).group(1)


def simulated(folder, limit, arms, name, machine):
    maps = {}
    for arm, words in ((arm, ARMS[arm]) for arm in arms):
        path = folder / f"{name}.{machine}.{arm}.map.json"
        try:
            maps[arm] = tell(["map", folder / f"{name}.npz", "--topology", topology(machine), *words, "-o", None], path)
        except RuntimeError as error:
            # A profile without a series has no phases.
            print(f"{name} on {machine}: no {arm}: {error}", file=sys.stderr)
    to = tell(["simulate", folder / f"{name}.rec", "--machine", machine, "--mapping", *maps.values(), "--json", None],
              folder / f"{name}.{machine}.sim.json", limit=limit)
    tell(["map", folder / f"{name}.npz", "--topology", topology(machine), "--mapper", "packed", "--json", None],
         folder / f"{name}.{machine}.verdict.json")
    times = [one["report"]["time_fs"] for one in json.loads(to.read_text())["mappings"]]
    if len(times) != len(maps):
        raise RuntimeError(f"{to}: {len(times)} mappings simulated, not {len(maps)}")
    (folder / f"{name}.{machine}.times.json").write_text(json.dumps(dict(zip(maps, times))))


def measure(options):
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)

    def told(what, work, *arguments):
        try:
            work(folder, options.budget, *arguments)
            print(f"{what}: done", flush=True)
            return True
        except (RuntimeError, OSError) as error:
            print(f"{what}: {error}", file=sys.stderr, flush=True)
            return False

    with concurrent.futures.ThreadPoolExecutor(options.programs_at_once) as pool:
        names = [(name, pool.submit(told, name, prepared, name, threads, command)) for name, threads, command in programs(options)]
        names = [name for name, done in names if done.result()]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        # The shortest first: what is there when time is over is as much as there can be.
        names.sort(key=lambda name: (folder / f"{name}.rec").stat().st_size)
        for name, machine in itertools.product(names, options.machines):
            if not (folder / f"{name}.{machine}.times.json").exists():
                pool.submit(told, f"{name} on {machine}", simulated, options.arms, name, machine)


def right_advice(times):
    base = sum(times[f"random-{seed}"] for seed in (1, 2, 3)) / 3
    near, apart = times["best"], times["congestion"]
    near_gains, apart_gains = near < base * (1 - NOTABLE), apart < base * (1 - NOTABLE)
    apart_ahead = apart < near * (1 - NOTABLE)
    if not near_gains and not apart_gains:
        return "nothing"
    if apart_ahead:
        return "both" if near_gains else "congestion"
    return "locality"


def advised(metrics, limits):
    """The rule of crates/model/src/metrics/advice.rs, if it were known that much comes from DRAM, without which it never says congestion."""
    least, locality, congesting, concurrency = limits
    ratio = metrics["communication_to_memory"]
    if not metrics["can_gain"] or not metrics["total"] or (ratio is not None and ratio < least):
        return "nothing"
    near = (metrics["locality"] or 0) >= locality
    apart = (metrics["communication_concurrency"] or 0) >= concurrency and (ratio is None or ratio >= congesting)
    # All together: the machines have more PUs than there are tasks, so that this is locality.
    return {(True, True): "both", (True, False): "locality", (False, True): "congestion", (False, False): "locality"}[near, apart]


def fit(options):
    pairs = []
    for path in sorted(options.folder.glob("*.times.json")):
        name, machine = re.fullmatch(r"(.*)\.([a-z0-9]+)\.times\.json", path.name).groups()
        times = {arm: time for arm, time in json.loads(path.read_text()).items()}
        shown = json.loads((options.folder / f"{name}.show.json").read_text())
        # What `map` says, which knows the machine; "together" is locality there.
        verdict = json.loads((options.folder / f"{name}.{machine}.verdict.json").read_text())["verdict"]
        said = verdict["advice"]["kind"]
        metrics = {**shown["metrics"], "can_gain": verdict["can_gain"]}
        pairs.append((name, machine, times, metrics, said, right_advice(times)))
    half = {True: [], False: []}
    for pair in pairs:
        half[zlib.crc32(pair[0].encode()) % 2 == 0].append(pair)

    def hits(part, limits):
        return sum(advised(metrics, limits) == right for _, _, _, metrics, _, right in part)

    print("| program | machine | best | congestion | deloc | packed | scatter | CommR | CommC | CommLoc | advised | right |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name, machine, times, metrics, said, right in pairs:
        base = sum(times[f"random-{seed}"] for seed in (1, 2, 3)) / 3
        gains = [f"{100 * (1 - times[arm] / base):+.1f} %" if arm in times else "-"
                 for arm in ("best", "congestion", "deloc", "packed", "scatter")]
        known = [f"{metrics[key]:.4f}" if metrics[key] is not None else "-"
                 for key in ("communication_to_memory", "communication_concurrency", "locality")]
        print(f"| {name} | {machine} | {' | '.join(gains)} | {' | '.join(known)} | {said} | {right} |")
    grid = itertools.product([0, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2], [0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2],
                             [1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 2.0], [0.25, 0.5, 0.75])
    ranked = max(grid, key=lambda limits: (hits(half[True], limits), -limits[0], -limits[1]))
    print(f"\n{len(pairs)} pairs, {len(half[True])} to choose by, {len(half[False])} held back")
    print(f"chosen: CommR from {ranked[0]}, CommLoc from {ranked[1]}, congestion from CommR {ranked[2]} and CommC {ranked[3]}")
    for name, part in (("chosen by", half[True]), ("held back", half[False])):
        as_it_is = sum(said == right for *_, said, right in part)
        print(f"{name}: right {hits(part, ranked)} of {len(part)} with these, {as_it_is} as the tool says it")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = parser.add_subparsers(required=True)
    one = sub.add_parser("measure")
    one.add_argument("folder", type=pathlib.Path)
    one.add_argument("--npb", type=pathlib.Path)
    one.add_argument("--commands", type=pathlib.Path, help="a line a program: its name and its command, THREADS being their number")
    one.add_argument("--class", dest="klass", default="S")
    one.add_argument("--patterns", type=pathlib.Path)
    one.add_argument("--machines", type=lambda text: text.split(","), default=["harpertown", "purple", "deloc", "epyc"])
    one.add_argument("--arms", type=lambda text: text.split(","), default=list(ARMS), help="mappings to simulate")
    one.add_argument("--threads", type=lambda text: [int(one) for one in text.split(",")], default=[8])
    one.add_argument("--jobs", type=int, default=2, help="simulations at once")
    one.add_argument("--budget", type=float, default=600,
                     help="seconds that profiling or recording a program may take, and simulating it on a machine")
    one.add_argument("--programs-at-once", type=int, default=1, help="programs profiled and recorded at once")
    one.set_defaults(run=measure)
    one = sub.add_parser("fit")
    one.add_argument("folder", type=pathlib.Path)
    one.set_defaults(run=fit)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""How soon online detection tells the pairs of generated programs apart.

    benches/online-generated.py [--half open|held] [--cases N] [--seed S] [--seconds T] [--only KEY=VALUE ...]
                                [--attach] [--user] [--options "..."] [--keep FOLDER] [--arm NAME=[BINARY] [OPTIONS] ...]
                                [--idle S] [CASE ...]

A case is a point of the space below, written like its name, `ring-8-10-8192-barrier-registers-threads`: pattern, tasks, percent of
their CPU time in the exchange, lines passed on in a round, how they wait, what they work on by themselves, threads or processes
(workloads/kernels/exchange.c). Cases are named on the command line, or N are drawn by the seed. Half of the space is held back from whatever
is tuned: those cases of which the first byte of the SHA-256 of the name is odd. Results that are published are of that half.

Each case runs T seconds under `cohabit run --dry-run`, or begins two seconds before `cohabit attach --dry-run` does; --user makes both an
ordinary user's (perf events). Who communicates is known. Printed, a line a case: events in all; seconds from which on
every pair that communicates has had more events than every pair that does not, until the end; the least of the one and the most
of the other after three seconds; and Pearson's correlation over the pairs with the lines that they exchange, after 3, 5 and 10 s.
Pairs that all communicate cannot be told apart: for them, and where none does, what can be said is left out.

--arm, several times, runs each case once by each of them, in an order that is drawn: with these options, by another cohabit where the first word
is a path; the last line of each is its name and what all its cases come to. --idle waits up to S seconds before each run until others use less than a quarter of
a PU (what has a lower priority does not count). `--arm all= --arm "watched=--without watched"` ... leaves kinds of evidence out, one each time.

Needs NumPy, build/workloads/exchange, and COHABIT (default: target/release/cohabit).
"""
import argparse, hashlib, itertools, json, os, random, shlex, shutil, signal, subprocess, sys, tempfile, time
from pathlib import Path

import numpy as np

COHABIT = os.path.abspath(os.environ.get("COHABIT", "target/release/cohabit"))
PROGRAM = Path(__file__).resolve().parent.parent / "build/workloads/exchange"
SPACE = {
    "pattern": ["ring", "pairs", "blocks", "all-to-one", "stencil", "none"],
    "tasks": [4, 8, 16],
    "share": [5, 10, 20, 40, 80],
    "lines": [16, 512, 8192, 60000],
    "wait": ["barrier", "flag", "futex", "queue"],
    "work": ["registers", "count", "clock", "cache", "memory"],
    "kind": ["threads", "processes"],
}
TIMES = [3, 5, 10]


def name(case):
    return "-".join(str(case[key]) for key in SPACE)


def parsed(text):
    # A pattern's own name may have hyphens.
    words = text.rsplit("-", len(SPACE) - 1)
    case = dict(zip(SPACE, words))
    for key, values in SPACE.items():
        if isinstance(values[0], int):
            case[key] = int(case[key])
        elif case[key] not in values:
            sys.exit(f"{text}: no {key} {case[key]}")
    return case


def is_held_back(case):
    return hashlib.sha256(name(case).encode()).digest()[0] % 2 == 1


def drawn(arguments):
    if arguments.cases_named:
        return [parsed(text) for text in arguments.cases_named]
    wanted = dict(word.split("=", 1) for word in arguments.only)
    space = {key: [value for value in values if str(value) in wanted.get(key, str(value)).split(",")] for key, values in SPACE.items()}
    cases = [dict(zip(SPACE, point)) for point in itertools.product(*space.values())]
    cases = [case for case in cases if is_held_back(case) == (arguments.half == "held")]
    return random.Random(arguments.seed).sample(cases, min(arguments.cases, len(cases)))


def correlation(a, b):
    pairs = np.triu_indices(len(a), 1)
    spread = a[pairs].std() * b[pairs].std()
    return float("nan") if spread == 0 else float(np.corrcoef(a[pairs], b[pairs])[0, 1])


def others_use():
    """Of a PU, what processes use that have the usual priority or a higher one."""
    def used():
        found = {}
        for file in Path("/proc").glob("[0-9]*/stat"):
            try:
                words = file.read_text().rsplit(") ", 1)[1].split()
            except OSError:
                continue
            nice, policy = int(words[16]), int(words[38])
            if nice <= 0 and policy not in (os.SCHED_IDLE, os.SCHED_BATCH):
                found[file] = int(words[11]) + int(words[12])
        return found

    before = used()
    time.sleep(0.3)
    return sum(now - before.get(file, 0) for file, now in used().items()) / os.sysconf("SC_CLK_TCK") / 0.3


def run(case, arm, arguments, room):
    """The truth, and what was seen up to the end of each window of 100 ms; both symmetric, of the tasks that exchange."""
    words = [str(PROGRAM), case["pattern"], "--seed", str(arguments.seed), "--expect", str(room / "truth.csv")]
    for key in ["tasks", "share", "lines", "wait", "work", "kind"]:
        words += [f"--{key}", str(case[key])]
    seconds = arguments.seconds
    binary, *options = arm
    options = ["--dry-run", "--window", "100ms", "-o", str(room / "p.npz"), "--json", str(room / "r.json"), *shlex.split(arguments.options), *options]
    user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] if arguments.user else []
    program = None
    if arguments.attach:
        program = subprocess.Popen([*user, *words, "--seconds", str(seconds + 4)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(2)
        line = [*user, "timeout", "-s", "INT", str(seconds + 0.5), binary, "attach", *options, str(program.pid)]
    else:
        line = [*user, binary, "run", *options, "--", *words, "--seconds", str(seconds)]
    try:
        ran = subprocess.run(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=room)
    finally:
        if program:
            program.kill()
            program.wait()
    if not (room / "p.npz").exists():
        sys.exit(f"{shlex.join(line)}: status {ran.returncode}\n{ran.stderr[-2000:]}")
    tasks = case["tasks"]
    # The parent of processes is a task too.
    first = int(case["kind"] == "processes")
    truth = np.zeros((tasks, tasks))
    for row in (room / "truth.csv").read_text().splitlines()[1:]:
        source, destination, lines = map(int, row.split(","))
        truth[source - first, destination - first] += lines
    profile = np.load(room / "p.npz")
    meta = json.loads(bytes(profile["meta"]))
    window = meta["window_ns"] / 1e9
    # There is no series where nothing was seen.
    series = [profile[f"series_{of}"] if f"series_{of}" in profile else [] for of in ["bin", "source", "destination", "messages"]]
    bins, source, destination, events = (np.array(of, dtype=int) for of in series)
    last = int(max([*bins, seconds / window]))
    seen = np.zeros((last + 1, tasks, tasks))
    inside = (source >= first) & (destination >= first) & (source < tasks + first) & (destination < tasks + first)
    np.add.at(seen, (bins[inside], source[inside] - first, destination[inside] - first), events[inside])
    # Each event is in both halves.
    return truth + truth.T, seen.cumsum(0), window, json.loads((room / "r.json").read_text()), ran.stderr


def told_apart(truth, seen, window):
    pairs = np.triu_indices(len(truth), 1)
    talks = truth[pairs] > 0
    if talks.all() or not talks.any():
        return None
    told = [events[pairs][talks].min() > events[pairs][~talks].max() for events in seen]
    if not told[-1]:
        return float("inf")
    last_wrong = max([-1, *[at for at, is_told in enumerate(told) if not is_told]])
    return (last_wrong + 1 + 1) * window


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=["open", "held"], default="open")
    parser.add_argument("--cases", type=int, default=20, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--only", action="append", default=[], metavar="KEY=VALUE[,VALUE]")
    parser.add_argument("--attach", action="store_true")
    parser.add_argument("--user", action="store_true")
    parser.add_argument("--options", default="", help="more options of cohabit")
    parser.add_argument("--arm", action="append", metavar="NAME=[BINARY] [OPTIONS]")
    parser.add_argument("--idle", type=float, default=0, metavar="S")
    parser.add_argument("--keep", metavar="FOLDER", help="what cohabit has written of each case")
    parser.add_argument("cases_named", nargs="*", metavar="CASE")
    arguments = parser.parse_args()
    arms = {}
    for text in arguments.arm or ["="]:
        arm, _, words = text.partition("=")
        words = shlex.split(words)
        arms[arm] = words if words and "/" in words[0] else [COHABIT, *words]
    if arguments.user:
        # Where another user can read them.
        shared = Path(tempfile.mkdtemp())
        shared.chmod(0o755)
        global PROGRAM
        PROGRAM = shutil.copy(PROGRAM, shared)
        arms = {arm: [shutil.copy(words[0], shared / f"cohabit{number}"), *words[1:]] for number, (arm, words) in enumerate(arms.items())}
    print("| case | events | told apart after, s | 3 s: least of those that communicate, most of the others | r, 3 s | 5 s | 10 s | cohabit's CPU, % |")
    print("|---|---|---|---|---|---|---|---|")
    summary, correlations = {arm: [] for arm in arms}, {arm: {at: [] for at in TIMES} for arm in arms}
    order = random.Random(arguments.seed)
    for case in drawn(arguments):
        for arm in order.sample(list(arms), len(arms)):
            deadline = time.monotonic() + arguments.idle
            while time.monotonic() < deadline and others_use() > 0.25:
                pass
            after, of = measure(case, arm, arms[arm], arguments)
            if after is not None:
                summary[arm].append(after)
            for at, r in of.items():
                correlations[arm][at].append(r)
    print()
    for arm in arms:
        told = {at: sum(after <= at for after in summary[arm]) for at in TIMES}
        said = [f"told apart after {', '.join(f'{at} s: {told[at]} of {len(summary[arm])}' for at in TIMES)}"] if summary[arm] else []
        found = [f"{at} s: {np.median(of):.3f}, {np.mean(np.array(of) >= 0.9):.2f}" for at, of in correlations[arm].items() if of]
        said += [f"correlation, median and share of at least 0.9: {', '.join(found)}"] if found else []
        print(f"{arm}: {'; '.join(said)}" if arm else "; ".join(said))


def measure(case, arm, words, arguments):
    """Runs a case by an arm and prints its line: after how many seconds its pairs are told apart, and the correlation after each time."""
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        room.chmod(0o777)
        truth, seen, window, document, said = run(case, words, arguments, room)
        if arguments.keep:
            keep = Path(arguments.keep) / arm / name(case)
            keep.mkdir(parents=True, exist_ok=True)
            for file in ["p.npz", "r.json", "truth.csv"]:
                shutil.copy(room / file, keep / file)
            (keep / "said").write_text(said)
    pairs = np.triu_indices(len(truth), 1)
    talks = truth[pairs] > 0
    after = told_apart(truth, seen, window)
    at_three = seen[min(len(seen) - 1, int(TIMES[0] / window) - 1)][pairs]
    extremes = [f"{of.min() if least else of.max():.0f}" if of.size else "-" for of, least in [(at_three[talks], True), (at_three[~talks], False)]]
    found, correlations = [], {}
    for at in TIMES:
        r = correlation(seen[min(len(seen) - 1, int(at / window) - 1)], truth) if at <= arguments.seconds else float("nan")
        # What has no events tells nothing, which is a correlation of none.
        if truth[pairs].std() > 0 and at <= arguments.seconds:
            correlations[at] = 0.0 if np.isnan(r) else r
        found.append("-" if np.isnan(r) else f"{r:.3f}")
    time_s = document.get("seconds", arguments.seconds) or arguments.seconds
    share = 100 * document.get("own_cpu_seconds", 0) / time_s / min(os.cpu_count(), case["tasks"])
    text = "-" if after is None else "never" if after == float("inf") else f"{after:.1f}"
    title = f"{arm}: {name(case)}" if arm else name(case)
    print(f"| {title} | {int(seen[-1][pairs].sum())} | {text} | {', '.join(extremes)} | {' | '.join(found)} | {share:.2f} |", flush=True)
    return after, correlations


main()

"""The tables of benches/cluster.py, as Markdown, of the measurements that it has kept.

A measurement is what it wrote of each program: the seconds (and operations/s) of each run by mapping, what each mapping is
estimated to take, how full all ports are with it, and its distance cost, the share of the run in MPI, the mapping that
cohabit takes, and the mappings that are like another one.
"""

import collections
import itertools
import statistics

# Below this share of the run, or of the communication, `cohabit run` takes a gain for none.
LEAST_GAIN, LEAST_SAVED, LEAST_REPLAYED = 0.01, 0.07, 0.1
# Estimates nearer to each other than this are equal for cohabit's search.
SAME = 0.01
# What is wanted of the mapping that is taken, and of the estimate (issue 4).
NEAR, OVER_SHUFFLED, DIRECTION = 0.02, 0.25, 0.95
# Single runs that are so far apart differ.
FAR = 0.05
# Runs of a mapping that count for something.
LEAST_RUNS = 3
# So many of the random mappings run in every round: those that are fastest in the first one.
FASTEST = 3


def seconds(entry):
    """Seconds of each run by mapping. The NAS benchmarks print hundredths, and operations/s with more digits: work over
    these, where the work is what makes both agree on average."""
    runs = [run for runs in entry["times"].values() for run in runs]
    if not runs or not all(rate for _, rate in runs):
        return {name: [took for took, _ in runs] for name, runs in entry["times"].items()}
    work = sum(took for took, _ in runs) / sum(1 / rate for _, rate in runs)
    return {name: [work / rate for _, rate in runs] for name, runs in entry["times"].items()}


def judged(entry):
    """The runs that count, of mappings with three and more. The run that a random mapping was chosen by is none, where there
    are more than are kept; who is like another one has the other's."""
    runs = seconds(entry)
    drawn = [name for name in runs if name.startswith("random")]
    if len(drawn) > FASTEST:
        runs.update({name: runs[name][1:] for name in drawn})
    runs = {name: times for name, times in runs.items() if len(times) >= LEAST_RUNS}
    for name, other in entry["alike"].items():
        if other in runs:
            runs[name] = runs[other]
    return runs


def median_of(times, kind):
    """Of all mappings of a kind, the median of each."""
    return [statistics.median(times[name]) for name in times if name.split(" ")[0] == kind]


def gains_over_shuffled(entry, times):
    """What cohabit's mapping gains over each shuffled linear one; 0 where no gain is predicted, whether phases
    overlap or not: that one stays then."""
    found = []
    for mapping in times:
        if mapping.startswith("shuffled"):
            of = [entry["estimates"]] + [{name: two[n] for name, two in entry["extremes"].items()} for n in (0, 1)]
            saved = [1 - estimates["time"] / estimates[mapping] for estimates in of]
            saved = saved[0] if entry.get("replayed") and saved[0] >= LEAST_REPLAYED else min(saved)
            gain = 1 - statistics.median(times["time"]) / statistics.median(times[mapping])
            is_gain = saved >= LEAST_SAVED and saved * (entry["share"] or 1.0) >= LEAST_GAIN
            found.append(gain if is_gain else 0.0)
    return found


def is_open(entry):
    """Whether mappings matter at all by the estimate: of a uniform all-to-all every one takes as long."""
    estimates = entry["estimates"].values()
    return 1 - min(estimates) / max(estimates) > LEAST_SAVED


def differ(one, other):
    """Measurably: no run of one is among those of the other."""
    return max(one) < min(other) or max(other) < min(one)


def far_apart(one, other):
    """By the medians, which may be of single runs."""
    one, other = statistics.median(one), statistics.median(other)
    return abs(one - other) >= FAR * max(one, other)


def differ_far(one, other):
    """Measurably, and not by little."""
    return differ(one, other) and far_apart(one, other)


def sooner(figures, one, other):
    """Whether a figure is less for one mapping than for the other; none where it is the same."""
    one, other = figures[one], figures[other]
    return None if abs(one - other) <= SAME * max(one, other) else one < other


def directions(entry, times, apart):
    """Counts of the pairs of mappings that are apart: all (`pairs`), those that the estimated time orders rightly (`right`), those
    that it takes for equal (`equal`), and of these the ones that are ordered rightly as cohabit's search chooses
    (`rest`): by how full all ports are, and where that is equal too by distance cost. Both alone as well: `norms` and
    `distances` with True for rightly, False for wrongly."""
    counts = collections.Counter()
    known = [name for name in times if name in entry["estimates"] and name not in entry["alike"]]
    for one, other in itertools.combinations(known, 2):
        if not apart(times[one], times[other]):
            continue
        faster = statistics.median(times[one]) < statistics.median(times[other])
        counts["pairs"] += 1
        by_time, by_norm = (sooner(entry[figures], one, other) for figures in ("estimates", "norms"))
        if by_time is not None:
            counts["right"] += by_time == faster
            continue
        counts["equal"] += 1
        first, second = entry["distances"][one], entry["distances"][other]
        by_distance = None if first == second else first < second
        counts["rest"] += (by_distance if by_norm is None else by_norm) == faster
        for figures, by in (("norms", by_norm), ("distances", by_distance)):
            if by is not None:
                counts[figures, by == faster] += 1
    return counts


class Program:
    """One program's row of each table, and what the summary needs of it."""

    def __init__(self, name, entry, times):
        self.name, self.entry, self.times = name, entry, times
        self.linear = statistics.median(times["linear"])
        self.ours = times[entry["chosen"]]
        self.drawn = median_of(times, "random")
        # The runs that random mappings were chosen by: their median says what a random mapping takes.
        self.first = [runs[0] for mapping, runs in seconds(entry).items() if mapping.startswith("random")]
        # Who is faster than ours among the others, by his median.
        others = ["linear", "by node 0"] + [mapping for mapping in times if mapping.startswith("random")]
        self.fastest = min(others, key=lambda mapping: statistics.median(times[mapping]))
        self.over_fastest = statistics.median(self.ours) / statistics.median(times[self.fastest]) - 1
        shuffled = gains_over_shuffled(entry, times)
        self.over_shuffled = statistics.mean(shuffled) if shuffled else None
        self.is_open = is_open(entry)
        self.directions = directions(entry, times, differ)
        self.directions_far = directions(entry, times, differ_far)
        self.directions_of_all = directions(entry, seconds(entry), far_apart)

    def measured(self):
        """Its row of the first table."""
        fastest = f"{min(self.drawn):.2f}" if self.drawn else "-"
        drawn = f"{fastest}; {statistics.median(self.first):.2f}" if self.first else "-"
        shuffled = median_of(self.times, "shuffled")
        like = {name: other.removesuffix(" 0") for name, other in self.entry["alike"].items()}
        cells = [like[kind] if kind in like else cell(self.times[kind]) for kind in ("by node 0", "best", "time")]
        renumbered = f"{statistics.mean(shuffled):.2f}" if shuffled else "-"
        fields = [self.name, f"{self.entry['share'] or 0:.0%}", str(len(self.times["linear"])),
                  cell(self.times["linear"]), cells[0], drawn, renumbered, cells[1], cells[2], self.entry["chosen"], f"{1 - statistics.median(self.ours) / self.linear:+.0%}",
                  f"{self.over_fastest:+.1%}", "-" if self.over_shuffled is None else f"{self.over_shuffled:+.0%}"]
        return row(fields)

    def figure(self):
        """Its row of the second: estimated beside actual gain over linear, as the report's Figure 7."""
        estimates, share = self.entry["estimates"], self.entry["share"] or 1.0
        fields = [self.name]
        for mapping in ("time", "best", "by node 0"):
            estimated = (1 - estimates[mapping] / estimates["linear"]) * share
            actual = 1 - statistics.median(self.times[mapping]) / self.linear
            fields.append(f"{estimated:+.1%} / {actual:+.1%}")
        return row(fields)

    def direction(self):
        """Its row of the third."""
        return row([self.name, *(str(self.directions[count]) for count in ("pairs", "right", "equal", "rest"))])


def cell(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def row(fields):
    return f"| {' | '.join(fields)} |"


def table(heads, rows):
    return [row(heads), "|" + "---|" * len(heads)] + rows + [""]


def tables(results):
    """The tables of what ran three times and more, and what was wanted."""
    programs = []
    for name, entry in results.items():
        times = judged(entry)
        if all(kind in times for kind in ("linear", "best", "time", "by node 0")):
            programs.append(Program(name, entry, times))
    lines = table(["program, ranks", "in MPI", "runs", "linear", "by node", "random: fastest; median", "linear, shuffled",
                   "best", "by time", "taken", "gain over linear", "over the fastest", "gain over shuffled"],
                  [program.measured() for program in programs])
    lines += table(["program, ranks: estimated / actual gain over linear", "by time", "best", "by node"],
                   [program.figure() for program in programs])
    lines += table(["program, ranks", "pairs that differ", "right", "estimated equal", "of these right by full ports, then distance"],
                   [program.direction() for program in programs])
    return "\n".join(lines + table(["wanted", "found"], summary(programs) if programs else []))


def summary(programs):
    """What issue 4 wants, item by item."""
    far = [program for program in programs if program.over_fastest > NEAR]
    told = [f"{program.name} {program.over_fastest:+.1%}"
            + ("" if differ(program.ours, program.times[program.fastest]) else " (ranges overlap)") for program in far]
    drawn = [len(program.first) for program in programs]
    rows = [row([f"within {NEAR:.0%} of the fastest of linear (by slot), by node and all random ones that differ ({min(drawn)} to {max(drawn)})",
                 f"{len(programs) - len(far)} of {len(programs)}" + ("; not " + ", ".join(told) if told else "")])]
    slower = [program.name for program in programs if min(program.ours) > max(program.times["linear"])]
    rows.append(row(["never slower than linear beyond the noise",
                     "slower: " + ", ".join(slower) if slower else f"so in {len(programs)} of {len(programs)}"]))
    renumbered = [program for program in programs if program.over_shuffled is not None]
    for what, kind in (("of all programs", renumbered),
                       ("of those where mappings can differ", [program for program in renumbered if program.is_open])):
        if kind:
            mean = statistics.mean(program.over_shuffled for program in kind)
            rows.append(row([f"{OVER_SHUFFLED:.0%} over linear with shuffled numbers, on average {what}",
                             f"{mean:+.1%} ({len(kind)} programs)"]))
    differing = [program for program in programs if program.is_open]
    for what, kind, of in ((f"direction right in {DIRECTION:.0%} of the pairs of mappings that differ measurably", programs, "directions"),
                           (f"the same, of those that are {FAR:.0%} and more apart", programs, "directions_far"),
                           ("the same of all, where mappings can differ", differing, "directions"),
                           (f"the same, of all pairs {FAR:.0%} and more apart, single runs included", differing, "directions_of_all")):
        counts = sum((getattr(program, of) for program in kind), collections.Counter())
        pairs, right, equal, rest = (counts[count] for count in ("pairs", "right", "equal", "rest"))
        if pairs:
            alone = ["{}: {} right, {} wrong".format(name, counts[figures, True], counts[figures, False])
                     for name, figures in (("full ports", "norms"), ("distance", "distances"))]
            rows.append(row([what, f"{right + rest} of {pairs} ({(right + rest) / pairs:.1%}): {right} of the {pairs - equal} that the estimated "
                             f"time tells apart, {rest} of the {equal} others by how full all ports are, then distance (alone, {'; '.join(alone)})"]))
    return rows + [row([f"of these told apart rightly {how}", by_extreme(differing, number)])
                   for number, how in enumerate(("with all phases at once", "with one phase after the other"))]


def by_extreme(programs, number):
    """What the estimate would have right if phases overlapped altogether, or not at all."""
    counts = collections.Counter()
    for program in programs:
        estimates = {name: both[number] for name, both in program.entry["extremes"].items()}
        counts += directions({**program.entry, "estimates": estimates}, seconds(program.entry), far_apart)
    return f"{counts['right']} of {counts['pairs'] - counts['equal']}"

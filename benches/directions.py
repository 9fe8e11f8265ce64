#!/usr/bin/env python3
"""Whether what is known beforehand came out of the papers' experiments on small inputs (make experiments-quick).

    benches/directions.py DIRECTORY        with NAME.json of each experiment, as `cohabit experiment --json` writes them

Known are made-up recordings: tasks that communicate with those half of all further on, in a ring, or all with all. Where only
pairs communicate, whoever sees them places them together, and that is faster by far. Of NAS programs, where they were run: MG
and LU are no slower by exact communication than as the system places them. Status 1 where one did not come out.
"""

import json
import pathlib
import sys

# Experiment, kind of recording, arm, the arm it is compared with, and the change in percent that it is at least (below) or at
# most (above): what it came to when this was written was three times as much and more.
KNOWN = [
    ("tlb2012", "distant", "Exact", "OS", -5.0),
    ("tlb2012", "distant", "SM-1", "OS", -5.0),
    ("beyond", "distant", "detector exact", "best known", 1.0),
    ("beyond", "ring", "detector exact", "best known", 1.0),
    ("cdsm2015", "distant", "CDSM", "OS", -20.0),
    ("cdsm2015", "distant", "Oracle", "Round robin", -20.0),
    ("cdsm2015", "ring", "Round robin", "OS", -5.0),
    ("cdsm2015", "distant", "Autopin", "OS", -20.0),
    ("complace", "distant", "COMPLACE", "OS", -20.0),
    ("complace", "ring", "COMPLACE", "OS", -5.0),
    ("complace", "ring", "COMPLACE, interleaved", "OS, interleaved", -5.0),
    ("deloc2020", "distant", "Locality by best", "Packed", -20.0),
    ("deloc2020", "ring", "Locality by best", "Scatter", -5.0),
    ("tlb2012", "mg", "Exact", "OS", 1.0),
    ("tlb2012", "lu", "Exact", "OS", 1.0),
]


def times(document):
    """Simulated time by program and arm."""
    rows = json.loads(document.read_text())["results"]
    return {(row["program"], row.get("arm")): row["value"] for row in rows if row["measure"] == "time"}


def main():
    folder = pathlib.Path(sys.argv[1])
    failed, missing = 0, 0
    for name, program, arm, over, most in KNOWN:
        found = times(folder / f"{name}.json")
        programs = {one for one, _ in found if one == program or one.startswith(f"synthetic:{program}:")}
        if not programs:
            missing += 1
            print(f"not run   {name}: {program}")
        for one in sorted(programs):
            change = 100 * (found[one, arm] / found[one, over] - 1)
            failed += change > most
            print(f"{'did not ' if change > most else 'came out'}  {name}: {one}, {arm} over {over}: {change:+.1f} % (at most {most:+.0f})")
    print(f"{len(KNOWN) - missing} known directions: {failed} did not come out")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

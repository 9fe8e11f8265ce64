#!/usr/bin/env python3
"""How quickly the page of `cohabit report` is there and answers, in Chromium without a window.

    benches/report.py [--tasks N] [--density D] [--repeat R]

A profile of N tasks is made (1,024 unless asked otherwise), in which a share D of all pairs communicate (all of them unless asked
otherwise), and its page is opened R times from disk. Printed are, of each time, the first contentful paint and when the matrix is
drawn, both since the page was asked for, and then what 100 moves of the pointer over the matrix took from the event to the end of
its handler and to the next frame. Needs chromium (scripts/setup.sh browser) and COHABIT (default: target/release/cohabit).
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile

import browser

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COHABIT = os.path.abspath(os.environ.get("COHABIT", f"{ROOT}/target/release/cohabit"))

READY = "new Promise((done) => { const look = () => document.documentElement.dataset.ready ? setTimeout(() => done(true), 50) : setTimeout(look, 10); look(); })"
PAINTS = "(async () => { const paint = performance.getEntriesByName('first-contentful-paint')[0]; const ready = performance.getEntriesByName('cohabit-ready')[0]; return [paint?.startTime ?? -1, ready.startTime]; })()"
WATCH = """(() => {
  const over = document.querySelector('.over');
  window.handled = []; window.framed = [];
  let began;
  over.addEventListener('pointermove', () => { began = performance.now(); }, true);
  over.addEventListener('pointermove', () => {
    const from = began;
    window.handled.push(performance.now() - from);
    requestAnimationFrame(() => window.framed.push(performance.now() - from));
  });
  over.scrollIntoView({ block: 'start' });
  const frame = over.getBoundingClientRect();
  return [frame.left, frame.top, frame.width, frame.height];
})()"""


def profile(folder, tasks, density):
    draw = random.Random(1)
    with open(os.path.join(folder, "m.csv"), "w", encoding="utf-8") as file:
        for row in range(tasks):
            near = [draw.randint(1, 100) * (50 if abs(row - column) < 3 else 1) if row != column and draw.random() < density else 0 for column in range(tasks)]
            file.write(",".join(map(str, near)) + "\n")
    subprocess.run([COHABIT, "import", "m.csv", "-o", "p.npz"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    machine = f"pack:2 core:{max(1, tasks // 4)} pu:2"
    subprocess.run([COHABIT, "report", "p.npz", "--topology", machine, "-o", "p.html"], cwd=folder, check=True)
    return os.path.join(folder, "p.html")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", type=int, default=1024)
    parser.add_argument("--density", type=float, default=1.0)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    if not browser.found():
        sys.exit("bench: no chromium here: scripts/setup.sh browser installs it")
    with tempfile.TemporaryDirectory() as folder:
        page = profile(folder, given.tasks, given.density)
        print(f"{given.tasks} tasks, {given.density:.0%} of pairs: {os.path.getsize(page) / 1e6:.1f} MB")
        for time in range(given.repeat):
            view = browser.Browser()
            view.open(page)
            view.run(READY)
            paint, ready = view.run(PAINTS)
            left, top, width, height = view.run(WATCH)
            for step in range(100):
                view.mouse("mouseMoved", left + width * (0.15 + 0.008 * step), top + min(height, 700) * (0.2 + 0.007 * step))
            view.run("new Promise((done) => setTimeout(done, 100))")
            handled, framed = (sorted(view.run(f"window.{name}")) for name in ("handled", "framed"))
            nodes = view.run("document.getElementsByTagName('*').length")
            print(
                f"  {time + 1}: first paint {paint:.0f} ms, matrix drawn {ready:.0f} ms; {len(handled)} hovers: handled in median {handled[len(handled) // 2]:.2f} ms, "
                f"most {handled[-1]:.2f} ms, on the screen most {framed[-1]:.1f} ms; {nodes} elements"
            )
            view.close()
            if view.errors:
                sys.exit("bench: " + "; ".join(view.errors))


if __name__ == "__main__":
    main()

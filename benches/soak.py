#!/usr/bin/env python3
"""Online detection and migration of a program whose tasks come and go without pause: does what cohabit holds stay bounded?

    benches/soak.py [--minutes M] [--pause MICROSECONDS] [--every SECONDS]

Runs `cohabit run --always -- build/workloads/generations` and prints, line by line, how many tasks there have been, the resident
memory and CPU time of cohabit, and what its eBPF maps hold in the kernel. Ends with the program's own verdict on its result and
with whether the settings are as before. Status 0 if both are right, memory after the first tenth of the time grew by less than
a tenth, and CPU time a minute by less than a half. Needs root for eBPF, and COHABIT (default: target/release/cohabit).
"""
import argparse, os, re, subprocess, sys, time

SETTINGS = ["/proc/sys/kernel/numa_balancing"]


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def resident_kib(pid):
    found = re.search(r"VmRSS:\s+(\d+)", read(f"/proc/{pid}/status"))
    return int(found.group(1)) if found else 0


def cpu_seconds(pid):
    fields = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def maps_kib(pid):
    """What the kernel accounts to the maps that the process holds."""
    total = 0
    for name in os.listdir(f"/proc/{pid}/fdinfo"):
        info = read(f"/proc/{pid}/fdinfo/{name}")
        if "map_type" in info:
            total += int(re.search(r"memlock:\s+(\d+)", info).group(1))
    return total // 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--pause", type=int, default=1000)
    parser.add_argument("--every", type=float, default=60)
    arguments = parser.parse_args()
    cohabit = os.environ.get("COHABIT", "target/release/cohabit")
    before = [read(path) for path in SETTINGS]
    seconds = int(60 * arguments.minutes)
    run = subprocess.Popen([cohabit, "run", "--always", "--", "build/workloads/generations", str(seconds), str(arguments.pause)],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    print("| minutes | resident, KiB | maps, KiB | CPU, s |\n|---|---|---|---|", flush=True)
    held, began = [], time.monotonic()
    while True:
        try:
            out, log = run.communicate(timeout=arguments.every)
            break
        except subprocess.TimeoutExpired:
            passed = time.monotonic() - began
            held.append((passed, resident_kib(run.pid) + maps_kib(run.pid), cpu_seconds(run.pid)))
            print(f"| {passed / 60:.1f} | {resident_kib(run.pid)} | {maps_kib(run.pid)} | {cpu_seconds(run.pid):.1f} |", flush=True)
    settled = [sample for sample in held if sample[0] > seconds / 10]
    grew = settled[-1][1] / settled[0][1] - 1 if settled else float("nan")
    # What the second half of that time took a second over what the first did.
    rate = lambda a, b: (b[2] - a[2]) / (b[0] - a[0])
    middle = len(settled) // 2
    slower = rate(settled[middle], settled[-1]) / rate(settled[0], settled[middle]) - 1 if middle > 0 else float("nan")
    restored = before == [read(path) for path in SETTINGS]
    print(f"\n{out.strip()}; status {run.returncode}; held at the end over held after a tenth of the time: {100 * grew:+.1f} %; "
          f"CPU time a second in the second half over the first: {100 * slower:+.1f} %; settings {'as before' if restored else 'NOT as before'}")
    print(log.strip().splitlines()[-1])
    sys.exit(0 if run.returncode == 0 and restored and grew < 0.1 and not slower > 0.5 else 1)


main()

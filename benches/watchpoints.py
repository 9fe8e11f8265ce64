#!/usr/bin/env python3
"""What a watchpoint takes of a program that never comes to the place: a program by itself, and with a data breakpoint in each of
its threads, at an address that is not mapped.

    benches/watchpoints.py [--blocks N] -- CMD...

On some processors a store that crosses a cache line takes several times as long while a data breakpoint is set (docs/online.md).
Ways are compared as blocks.py says; the breakpoints are set when the program has run for 0.3 s, in the threads that it has
then. Needs x86-64 and perf events (kernel.perf_event_paranoid of 2 or less).
"""
import argparse
import ctypes
import os
import random
import statistics
import struct
import subprocess
import sys
import time

from blocks import interval, percent, ratios

PERF_EVENT_OPEN = 298
NOWHERE = 0x10000


def breakpoint_in(thread):
    """A data breakpoint of eight bytes, for reads and writes (perf_event_open(2), PERF_ATTR_SIZE_VER5)."""
    exclude_kernel_and_hypervisor = 1 << 5 | 1 << 6
    attributes = struct.pack("=IIQQQQQIIQQ", 5, 112, 0, 1, 0, 0, exclude_kernel_and_hypervisor, 0, 3, NOWHERE, 8)
    attributes = ctypes.create_string_buffer(attributes.ljust(112, b"\0"))
    descriptor = ctypes.CDLL(None, use_errno=True).syscall(PERF_EVENT_OPEN, attributes, thread, -1, -1, 8)
    if descriptor < 0:
        sys.exit(f"bench: no breakpoint in thread {thread}: {os.strerror(ctypes.get_errno())}")
    return descriptor


def run(command, is_watched):
    """CPU and wall seconds of a command."""
    began = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        time.sleep(0.3)
        threads = os.listdir(f"/proc/{process.pid}/task") if is_watched else []
        descriptors = [breakpoint_in(int(thread)) for thread in threads]
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    for descriptor in descriptors:
        os.close(descriptor)
    if process.returncode:
        sys.exit(f"bench: {' '.join(command)}: status {process.returncode}")
    return {"cpu": usage.ru_utime + usage.ru_stime, "wall": time.monotonic() - began}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("command", nargs="+", metavar="CMD")
    arguments = parser.parse_args()
    ways = {"alone": False, "watched": True}
    blocks = [{way: run(arguments.command, ways[way]) for way in random.sample(list(ways), 2)} for _ in range(arguments.blocks)]
    median, bounds = interval(ratios(blocks, "cpu", "watched", "alone"))
    alone = statistics.median(found["alone"]["cpu"] for found in blocks)
    limits = f"{percent(bounds[0])} to {percent(bounds[1])}" if bounds else "too few blocks for an interval"
    print(f"{len(blocks)} blocks; by itself {alone:.2f} s of CPU time; watched {percent(median)} (95 %: {limits})")


if __name__ == "__main__":
    main()

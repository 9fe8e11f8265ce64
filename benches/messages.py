#!/usr/bin/env python3
"""What the order of messages does to all-to-alls over several hosts, which cohabit's estimate leaves out, as the report's does:
each message of FT and IS followed through the ports of the emulated cluster.

    benches/messages.py DIR [--step-ms 0.1]

DIR is what `benches/cluster.py --keep DIR` left of them. For docs/benchmarks-mpi.md, "Handshakes".

A message waits behind what came before it, in each port on its way, frame by frame; of one pair's messages no more than two
segments of 64 KiB are in its host's own port at once (TCP small queues), so pairs share that port. Messages of 64 KiB and more are asked for
first: the question and the answer wait like others, and the answer goes through the connection that the other rank's own
messages go through. The order of messages is Open MPI 4.1's: FT's all-to-alls go to the rank before, the one before that and so on, all
at once (with 4 ranks pairwise, a step at a time), IS's to rank 0, 1, 2 and so on, all at once.
"""

import argparse
import collections
import heapq
import itertools
import json
import math
import os
import random
import statistics
import sys

import numpy

FIRST_SUBNET = 5
# 100 Mbit/s with what Ethernet, IP and TCP add to a frame.
BYTES_PER_S = 12.5e6 * 1448 / 1538
FRAMES = 3 * 1448  # simulated as one
SEGMENT = 65536
SEGMENTS = 2
LATENCY_S = 30e-6
MEMORY_BYTES_PER_S = 4e9
# Longer messages are asked for; their header is in the 64 KiB.
EAGER = 65536 - 32
CONTROL = 64
# Of a measurement: two that are nearer to each other do not differ, nor two estimates by less than this.
APART, EQUAL = 0.05, 0.01
FT_BYTES = 128 * 128 * 32 * 16
FT_STEPS, IS_STEPS = 7, 11


class Network:
    """The emulated cluster, its clock, and what is on its way."""

    def __init__(self, hosts):
        self.hosts = hosts  # of each rank
        self.now, self.events, self.number = 0.0, [], itertools.count()
        self.queues = {}  # of each port: segments
        self.waiting = {}  # of each pair: messages that are not yet in the host's port
        self.segments = collections.Counter()  # of each pair in the host's port

    def after(self, seconds, what, *arguments):
        heapq.heappush(self.events, (self.now + seconds, next(self.number), what, arguments))

    def run(self):
        while self.events:
            self.now, _, what, arguments = heapq.heappop(self.events)
            what(*arguments)

    def ports(self, source, destination):
        """Through which ports a message goes, in order."""
        out, into = self.hosts[source], self.hosts[destination]
        if out == into:
            return []
        subnets = [host >= FIRST_SUBNET for host in (out, into)]
        trunk = [("trunk", subnets[0])] if subnets[0] != subnets[1] else []
        return [("out", out)] + trunk + [("in", into)]

    def send(self, source, destination, size, arrived, left=None):
        """`left` is called when the last of it has left the sender's port, `arrived` when it is there."""
        if not self.ports(source, destination):
            for what in filter(None, (arrived, left)):
                self.after(size / MEMORY_BYTES_PER_S, what)
            return
        self.waiting.setdefault((source, destination), collections.deque()).append([size, arrived, left])
        self.fill((source, destination))

    def fill(self, pair):
        messages = self.waiting[pair]
        while messages and self.segments[pair] < SEGMENTS:
            message = messages[0]
            size = min(message[0], SEGMENT)
            message[0] -= size
            last = message[0] == 0
            self.segments[pair] += 1
            ends = messages.popleft()[1:] if last else (None, None)
            self.arrive(0, [size, pair, self.ports(*pair), *ends])

    def arrive(self, place, segment):
        port = segment[2][place]
        queue = self.queues.setdefault(port, collections.deque())
        queue.append((place, segment))
        if len(queue) == 1:
            self.serve(port)

    def serve(self, port):
        """Sends the next frames of what waits in the port."""
        if self.queues[port]:
            size = min(FRAMES, self.queues[port][0][1][0])
            self.after(size / BYTES_PER_S, self.served, port, size)

    def served(self, port, size):
        place, segment = self.queues[port][0]
        segment[0] -= size
        _, pair, ports, arrived, left = segment
        last = segment[0] == 0
        if last:
            self.queues[port].popleft()
        if last and place == 0:
            self.segments[pair] -= 1
            self.fill(pair)
            if left:
                left()
        if place + 1 < len(ports):
            self.after(LATENCY_S, self.arrive, place + 1, [size, pair, ports, arrived if last else None, None])
        elif last and arrived:
            self.after(LATENCY_S, arrived)
        self.serve(port)


class Ranks:
    """Ranks that go from round to round: in each they send what `rounds[round][rank]` says, a list of (destination, bytes),
    and wait until that is sent and what others send them is there."""

    def __init__(self, network, rounds, step_s):
        self.network, self.rounds, self.step_s = network, rounds, step_s
        count = len(network.hosts)
        self.round, self.open = [-1] * count, [0] * count
        self.early = collections.Counter()  # what came before the rank's round had begun
        self.asked = collections.defaultdict(list)
        self.random = random.Random(1)
        self.expected = [collections.Counter(to for sends in sent for to, _ in sends) for sent in rounds]
        for rank in range(count):
            self.step(rank)

    def step(self, rank):
        self.network.after(self.random.random() * self.step_s, self.begin, rank)

    def begin(self, rank):
        self.round[rank] += 1
        now = self.round[rank]
        if now == len(self.rounds):
            return
        sends = self.rounds[now][rank]
        self.open[rank] = len(sends) + self.expected[now][rank] - self.early[now, rank]
        for answer in self.asked.pop((now, rank), []):
            answer()
        for to, size in sends:
            if size <= EAGER or not self.network.ports(rank, to):
                self.network.send(rank, to, size, lambda to=to: self.here(now, to))
                self.open[rank] -= 1
            else:
                self.network.send(rank, to, CONTROL, lambda to=to, size=size: self.ask(now, rank, to, size))
        if self.open[rank] == 0:
            self.step(rank)

    def ask(self, now, source, to, size):
        def send():
            self.network.send(source, to, size, lambda: self.here(now, to), lambda: self.done(source))

        def answer():
            self.network.send(to, source, CONTROL, send)

        if self.round[to] >= now:
            answer()
        else:
            self.asked[now, to].append(answer)

    def here(self, now, rank):
        if self.round[rank] == now:
            self.done(rank)
        else:
            self.early[now, rank] += 1

    def done(self, rank):
        self.open[rank] -= 1
        if self.open[rank] == 0:
            self.step(rank)


def rounds_of(name, folder):
    """What each rank sends in each round of the program."""
    kind, count = name.split(".")[0], int(name.split(".")[-1])
    ranks = range(count)
    if kind == "ft":
        size = FT_BYTES // count**2
        if count == 4:
            return [[[((rank + step) % count, size)] for rank in ranks] for step in range(1, count)] * FT_STEPS
        return [[[((rank - step) % count, size) for step in range(1, count)] for rank in ranks]] * FT_STEPS
    # IS: counts of buckets by recursive doubling, numbers of keys, keys (messages of 8 KiB and more).
    profile = numpy.load(f"{folder}/p.npz")
    keys = collections.Counter()
    columns = ("size_source", "size_destination", "size_class", "size_bytes")
    for source, to, size_class, size in zip(*(profile[column].tolist() for column in columns)):
        keys[source, to] += size // IS_STEPS if size_class > 12 else 0
    doubling = [[[(rank ^ 1 << bit, 4120)] for rank in ranks] for bit in range(count.bit_length() - 1)]
    numbers = [[((rank - step) % count, 4) for step in range(1, count)] for rank in ranks]
    return (doubling + [numbers, [[(to, keys[rank, to]) for to in ranks if to != rank] for rank in ranks]]) * (IS_STEPS - 1)


def simulated(name, folder, mapping, step_s):
    with open(f"{folder}/{mapping}.json", encoding="utf-8") as file:
        network = Network([int(task["host"][1:]) for task in json.load(file)["tasks"]])
    rounds = rounds_of(name, folder)
    ranks = Ranks(network, rounds, step_s)
    network.run()
    assert all(number == len(rounds) for number in ranks.round)
    return network.now


def right(rows, column):
    """Pairs whose measurements differ; of these told apart by the column, and in the right order."""
    pairs = [(a, b) for a, b in itertools.combinations(rows, 2) if abs(math.log(a[0] / b[0])) >= APART]
    apart = [(a, b) for a, b in pairs if abs(math.log(a[column] / b[column])) >= EQUAL]
    return len(pairs), len(apart), sum((a[0] < b[0]) == (a[column] < b[column]) for a, b in apart)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("--step-ms", type=float, default=0.1, help="ranks begin rounds up to so late (0.1)")
    arguments = parser.parse_args()
    with open(f"{arguments.folder}/results.json", encoding="utf-8") as file:
        results = json.load(file)
    print("| program, ranks | pairs that differ | told apart by the estimate, right | message by message, right "
          "| error of the estimate | message by message |\n|---|---|---|---|---|---|")
    for name, entry in sorted(results.items()):
        if name.split(".")[0] not in ("ft", "is") or name.endswith(".2"):
            continue
        folder = os.path.join(arguments.folder, name)
        rows = []
        for mapping, times in entry["times"].items():
            seconds = simulated(name, folder, mapping, arguments.step_ms * 1e-3)
            rows.append((statistics.median(took[0] for took in times), entry["estimates"][mapping], seconds))
        count, apart, good = right(rows, 1)
        _, followed, followed_good = right(rows, 2)
        error = [statistics.mean(abs(math.log(row[column] / row[0])) for row in rows) for column in (1, 2)]
        print(f"| {name} | {count} | {good} of {apart} | {followed_good} of {followed} | {error[0]:.2f} | {error[1]:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

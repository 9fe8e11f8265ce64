#!/usr/bin/env python3
"""A cluster on one machine: network namespaces as hosts, bridges as switches, links slowed by tc's token bucket.

The default is the cluster of the IBM report (section 7): hosts with two processors, five and three on two subnets, each
port and the trunk between the subnets 100 Mbit/s. No port drops a frame, as with Ethernet's flow control (IEEE 802.3x);
--queue-kb N gives each a queue that overflows. Needs root, ip and tc (iproute2), nsenter and unshare (util-linux).

    cluster.py create DIR             makes a cluster; DIR, which must not exist, holds what belongs to it
    cluster.py run DIR HOST CMD...    runs a command on a host (DIR/on HOST CMD... is the same)
    cluster.py destroy DIR            ends what runs on the cluster, and removes all of it, DIR included
    cluster.py with CMD...            creates one, runs CMD on its first host with CLUSTER=DIR, and destroys it

A host has its name, its address, its /etc/hosts, its /dev/shm, its TMPDIR; files and processors it shares with the
machine, and says that its processors are PUs 0 and 1. With --own-pus, where the machine has two PUs for each host, the
first host has PUs 0 and 1, the next 2 and 3, and so on. mpirun (Open MPI) and mpiexec (MPICH) that are run on one host start their ranks on the others. In DIR:

    on            runs a command on a host          hosts         /etc/hosts of the hosts
    agent         the same in the place of ssh      hostfile      for Open MPI
    cluster.toml  for cohabit --topology            machinefile   for MPICH
"""

import argparse
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NETWORK = "10.77.0"
PUS = 2  # of a host
# Of a queue that nothing is dropped from: more than all senders together have on their way. Where frames are dropped, TCP
# waits 200 ms and more before it sends again, and whom that hits is chance: all-to-alls took up to four times as long under
# one mapping as under another that puts as many bytes on every link (benches/estimates.md).
ENDLESS_KB = 1_000_000
# So nothing is to be sent again. TCP would all the same, when a queue makes its answers late all at once: it probes what it
# takes for lost after two round trips, and sends all of it after this time.
PATIENT = "rto_min 2s"
NO_PROBES = "net.ipv4.tcp_early_retrans=0"
# The congestion control that every kernel has, whatever this machine's is. BBR, which some have, paces by a bandwidth that it
# measures, and the token buckets' first frames, which go at once, mislead it: all-to-alls of 4 hosts got half of what ports let
# through (benches/estimates.md).
RENO = "net.ipv4.tcp_congestion_control=reno"
# What a host runs is told this of the MPIs: no ssh, the cluster's network, and ranks that wait give their processor up,
# since all hosts share the machine's.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_plm_rsh_agent": "{folder}/agent",
    "PRTE_MCA_plm_ssh_agent": "{folder}/agent",
    "OMPI_MCA_pml": "^ucx,cm",
    "OMPI_MCA_btl": "^openib,uct,ofi,usnic",
    "OMPI_MCA_btl_tcp_if_include": NETWORK + ".0/24",
    "OMPI_MCA_oob_tcp_if_include": NETWORK + ".0/24",
    "PRTE_MCA_prte_if_include": NETWORK + ".0/24",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "HYDRA_LAUNCHER": "ssh",
    "HYDRA_LAUNCHER_EXEC": "{folder}/agent",
    "HYDRA_IFACE": "eth0",
    # UCX would find that the hosts are one machine and send through its memory.
    "UCX_TLS": "tcp,self",
    "UCX_NET_DEVICES": "eth0",
    "FI_PROVIDER": "tcp",
    "FI_TCP_IFACE": "eth0",
}

# What is mounted here nobody else sees. /sys has to be that of the host's network (UCX looks for interfaces there), with the
# machine's cgroups in it (Slurm's daemons look for them).
ON = """#!/bin/sh
# Runs a command on a host of the cluster: on HOST CMD...
[ -e "/run/netns/{tag}-$1" ] || {{ echo "on: there is no host '$1' in this cluster" >&2; exit 125; }}
exec nsenter --net="/run/netns/{tag}-$1" unshare --uts --mount sh -c '
hostname "$0" && mount --bind "{folder}/hosts" /etc/hosts && mount -t tmpfs tmpfs /dev/shm || exit 125
mkdir /dev/shm/cgroup && mount --rbind /sys/fs/cgroup /dev/shm/cgroup && mount -t sysfs sysfs /sys &&
    mount --rbind /dev/shm/cgroup /sys/fs/cgroup && umount -l /dev/shm/cgroup && rmdir /dev/shm/cgroup || exit 125
export TMPDIR="{folder}/tmp/$0" CLUSTER="{folder}"
{exports}
exec "$@"' "$@"
"""

AGENT = """#!/bin/sh
# In the place of ssh for Open MPI's plm_rsh_agent and for Hydra's -launcher-exec: agent [OPTION]... HOST WORD...
while :; do
    case $1 in -[bcDEeFIiLlmOopQRSWw]) shift 2 ;; -*) shift ;; *) break ;; esac
done
host=$1
shift
exec "{folder}/on" "$host" sh -c "$*"
"""


class Shape(typing.NamedTuple):
    """What a cluster is like."""

    subnets: list  # hosts of each
    rate_mbit: int  # of ports and trunk
    queue_kb: int | None  # of each port; none where nothing is dropped
    own_pus: bool  # each host has two PUs of the machine for itself
    asks_from: str  # messages from this length on are asked for first; empty: none are


class Failure(Exception):
    """What went wrong, in a line."""


def call(words, script=None):
    """Runs a tool to its end; a failure is its last line."""
    done = subprocess.run(words, input=script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
        raise Failure(f"{' '.join(words)}: {said[-1]}")
    return done.stdout


def check_possible():
    """Root, the tools, and a kernel that has what they ask for."""
    if os.geteuid() != 0:
        raise Failure("network namespaces need root")
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    for tool in ("ip", "tc", "nsenter", "unshare"):
        if shutil.which(tool) is None:
            raise Failure(f"{tool} is not installed (Debian packages iproute2, util-linux)")


def write(path, text, mode=0o644):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    os.chmod(path, mode)


def host_names(subnets):
    """The hosts of each subnet: n0, n1, ... numbered through."""
    names = iter(f"n{number}" for number in range(sum(subnets)))
    return [[next(names) for _ in range(size)] for size in subnets]


def cluster_file(shape):
    """The cluster as cohabit reads it (docs/cluster.md)."""
    subnets = shape.subnets
    last = sum(subnets) - 1
    if shape.own_pus:
        text = "# Made by cluster.py: emulated hosts, each with two processors of one machine.\n"
        for number in range(last + 1):
            pus = f"{PUS * number},{PUS * number + 1}"
            text += f'[[host]]\nnames = "n{number}"\ntopology = "core:2 pu:1(indexes={pus})"\n\n'
    else:
        text = "# Made by cluster.py: emulated hosts, all with the processors of one machine.\n"
        text += f'[[host]]\nnames = "n[0-{last}]"\ntopology = "core:2 pu:1"\n\n'
    first = 0
    for number, size in enumerate(subnets):
        text += f'[[switch]]\nname = "s{number}"\nmembers = "n[{first}-{first + size - 1}]"\n\n'
        first += size
    ports = f'"n[0-{last}]"'
    if len(subnets) > 1:
        # A tree has something above both ends of the trunk.
        switches = f'"s[0-{len(subnets) - 1}]"'
        text += f'[[switch]]\nname = "trunk"\nmembers = {switches}\n\n'
        ports += f", {switches}"
    text += f'[[port]]\nof = [{ports}]\nbandwidth = "{shape.rate_mbit} Mbit/s"\n'
    text += f'asks_from = "{shape.asks_from}"\n\n' if shape.asks_from else "\n"
    return text + '# Through memory, which is no bottleneck here.\n[[port]]\nlevel = "pu"\nbandwidth = "1 GB/s"\n'


def create(folder, shape):
    """Makes the cluster; where that fails, or is interrupted, nothing is left."""
    check_possible()
    if shape.own_pus and PUS * sum(shape.subnets) > (os.cpu_count() or 1):
        raise Failure(f"--own-pus needs {PUS * sum(shape.subnets)} PUs, and this machine has {os.cpu_count()}")
    folder = os.path.abspath(folder)
    if any(character in folder for character in " '\"$\\`"):
        raise Failure(f"{folder}: choose a path without blanks and quotes: shells of MPI launchers will read it")
    try:
        os.mkdir(folder, 0o755)
    except OSError as error:
        raise Failure(f"{folder}: {error.strerror}") from error
    try:
        # First of all the name under which everything is found again.
        tag = f"cohabit-{secrets.token_hex(4)}"
        write(f"{folder}/tag", tag + "\n")
        write_files(folder, tag, shape)
        make_network(tag, shape)
    except BaseException:
        destroy(folder)
        raise
    return folder


def write_files(folder, tag, shape):
    names = [name for subnet in host_names(shape.subnets) for name in subnet]
    addresses = "".join(f"{NETWORK}.{number + 1} {name}\n" for number, name in enumerate(names))
    exports = "\n".join(f'export {key}="{value.format(folder=folder)}"' for key, value in ENVIRONMENT.items())
    write(f"{folder}/hosts", "127.0.0.1 localhost\n" + addresses)
    write(f"{folder}/hostfile", "".join(f"{name} slots={PUS}\n" for name in names))
    write(f"{folder}/machinefile", "".join(f"{name}:{PUS}\n" for name in names))
    write(f"{folder}/cluster.toml", cluster_file(shape))
    write(f"{folder}/on", ON.format(folder=folder, tag=tag, exports=exports), 0o755)
    write(f"{folder}/agent", AGENT.format(folder=folder), 0o755)
    for name in names:
        os.makedirs(f"{folder}/tmp/{name}")


def make_network(tag, shape):
    """The switches are bridges in a namespace of their own, so that the machine's network is not touched."""
    subnets = host_names(shape.subnets)
    # No router advertisements and no duplicate address detection on the slow links; a kernel without IPv6 has none.
    switch, settings = f"{tag}-switches", ["net.ipv6.conf.all.disable_ipv6=1", RENO]
    settings += [] if shape.queue_kb else [NO_PROBES]
    names = [name for subnet in subnets for name in subnet]
    for space in [switch] + [f"{tag}-{name}" for name in names]:
        call(["ip", "netns", "add", space])
        for setting in settings:
            subprocess.run(["ip", "netns", "exec", space, "sysctl", "-q", "-w", setting], stderr=subprocess.DEVNULL)
        call(["ip", "-n", space, "link", "set", "lo", "up"])
    links = []
    script = ""
    for number, subnet in enumerate(subnets):
        script += f"link add s{number} type bridge stp_state 0 forward_delay 0\nlink set s{number} up\n"
        for name in subnet:
            script += f"link add {name} type veth peer name eth0 netns {tag}-{name}\n"
            script += f"link set {name} master s{number} up\n"
            links += [(switch, name), (f"{tag}-{name}", "eth0")]
    for number in range(1, len(subnets)):
        script += f"link add t{number} type veth peer name u{number}\n"
        script += f"link set t{number} master s0 up\nlink set u{number} master s{number} up\n"
        links += [(switch, f"t{number}"), (switch, f"u{number}")]
    call(["ip", "-n", switch, "-batch", "-"], script)
    for number, name in enumerate(names):
        address = f"address add {NETWORK}.{number + 1}/24 dev eth0\nlink set eth0 up\n"
        address += "" if shape.queue_kb else f"route change {NETWORK}.0/24 dev eth0 src {NETWORK}.{number + 1} {PATIENT}\n"
        call(["ip", "-n", f"{tag}-{name}", "-batch", "-"], address)
    # Two frames may go at once.
    for space, link in links:
        bucket = f"tbf rate {shape.rate_mbit}mbit burst 3kb limit {shape.queue_kb or ENDLESS_KB}kb"
        call(["tc", "-n", space, "qdisc", "add", "dev", link, "root"] + bucket.split())


def namespaces(tag):
    try:
        return sorted(name for name in os.listdir("/run/netns") if name.startswith(tag + "-"))
    except FileNotFoundError:
        return []


def within(inodes):
    """The processes whose network is one of these namespaces."""
    found = set()
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}/ns/net").st_ino in inodes:
                found.add(int(name))
        except OSError:
            pass  # It has ended.
    return found - {os.getpid()}


def end_processes(inodes):
    """Ends what runs in the namespaces: asked first, then killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for _ in range(20):
            pids = within(inodes)
            if not pids:
                return
            for pid in pids:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            time.sleep(0.05)


def destroy(folder):
    """Removes all there is of a cluster, also of one that was made in part."""
    folder = os.path.abspath(folder)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    try:
        try:
            with open(f"{folder}/tag", encoding="ascii") as file:
                tag = file.read().strip()
        except OSError as error:
            if not os.listdir(folder):
                os.rmdir(folder)
                return
            raise Failure(f"{folder}: no cluster is there ({error.strerror})") from error
        if not tag.startswith("cohabit-"):
            raise Failure(f"{folder}/tag: not what cluster.py wrote")
        os.environ["PATH"] += ":/usr/sbin:/sbin"
        spaces = namespaces(tag)
        # Held open, so that no other namespace gets their numbers meanwhile.
        held = [os.open(f"/run/netns/{space}", os.O_RDONLY) for space in spaces]
        inodes = {os.fstat(file).st_ino for file in held}
        end_processes(inodes)
        for space in spaces:
            call(["ip", "netns", "delete", space])
        # Who was on the way in when the others ended; nobody finds the way any more.
        end_processes(inodes)
        for file in held:
            os.close(file)
        shutil.rmtree(folder)
    except FileNotFoundError as error:
        raise Failure(f"{error.filename}: no cluster is there") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run(folder, host, command):
    """The command in the place of this process."""
    try:
        os.execv(f"{folder}/on", [f"{folder}/on", host] + command)
    except OSError as error:
        raise Failure(f"{folder}: no cluster is there ({error.strerror})") from error


def run_within(command, shape):
    """A cluster for as long as a command takes."""
    parent = tempfile.mkdtemp(prefix="cluster-")
    folder = f"{parent}/c"
    try:
        create(folder, shape)
        status = subprocess.Popen([f"{folder}/on", "n0"] + command).wait()
    finally:
        if os.path.exists(folder):
            destroy(folder)
        os.rmdir(parent)
    return 128 - status if status < 0 else status


def interrupted(number, _frame):
    """Once is enough: from then on it is removed, undisturbed."""
    for other in ENDS:
        signal.signal(other, signal.SIG_IGN)
    raise Failure(f"ended by {signal.Signals(number).name}")


def counts(text):
    subnets = [int(size) for size in text.split(",")]
    if not subnets or min(subnets) < 1 or sum(subnets) > 250:
        raise ValueError
    return subnets


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subnets", type=counts, default=[5, 3], metavar="N,N...", help="hosts of each subnet (5,3)")
    parser.add_argument("--rate-mbit", type=int, default=100, metavar="N", help="rate of ports and trunk (100)")
    parser.add_argument("--queue-kb", type=int, metavar="N", help="queue of each port; more is dropped (nothing is)")
    parser.add_argument("--own-pus", action="store_true", help="each host has two PUs of the machine for itself")
    parser.add_argument("--asks-from", default="64KiB", metavar="LENGTH",
                        help="what the cluster file says: from which length on MPI asks before it sends (64KiB, as Open MPI does; '' for not at all)")
    commands = parser.add_subparsers(dest="action", required=True)
    commands.add_parser("create").add_argument("folder", metavar="DIR")
    commands.add_parser("destroy").add_argument("folder", metavar="DIR")
    on_host = commands.add_parser("run")
    on_host.add_argument("folder", metavar="DIR")
    on_host.add_argument("host", metavar="HOST")
    on_host.add_argument("command", metavar="CMD", nargs=argparse.REMAINDER)
    commands.add_parser("with").add_argument("command", metavar="CMD", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    shape = Shape(arguments.subnets, arguments.rate_mbit, arguments.queue_kb, arguments.own_pus, arguments.asks_from)
    for number in ENDS:
        signal.signal(number, interrupted)
    try:
        if arguments.action == "create":
            create(arguments.folder, shape)
        elif arguments.action == "destroy":
            destroy(arguments.folder)
        elif arguments.action == "run":
            run(arguments.folder, arguments.host, arguments.command)
        else:
            return run_within(arguments.command, shape)
    except Failure as failure:
        print(f"cluster: {failure}", file=sys.stderr)
        return 125
    return 0


if __name__ == "__main__":
    sys.exit(main())

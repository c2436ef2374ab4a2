"""Hosts that are joined pair by pair: each pair of network namespaces has a cable of its own, which
can be slower than the others in one direction, as no port of a switch could be; for tests."""

import os
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations

from networks import command
from processes import PATIENCE_S
from shapes import Cluster, shaped, up


@dataclass
class PairHosts:
    """`namespaces` of the hosts, one rank on each."""

    namespaces: list[str]

    @property
    def ranks(self) -> int:
        return len(self.namespaces)

    def place(self, rank: int) -> tuple[str, dict[str, str]]:
        """The rank's namespace, and what tells it who and where it is."""
        variables = {
            "RANK": str(rank),
            "WORLD_SIZE": str(len(self.namespaces)),
            "LOCAL_RANK": "0",
            "RINGWOOD_HOST_ID": f"host{rank}",
            "RINGWOOD_SOCKET_IFNAME": "rail0",
            "RINGWOOD_TRANSPORTS": "tcp",
            # All hosts share this machine's cores.
            "RINGWOOD_SPIN_US": "0",
        }
        return self.namespaces[rank], variables

    def slow_down(self, sender: int, receiver: int, mbit: float) -> None:
        """From now on that is the rate from one host to the other one."""
        change = ["tbf", "rate", f"{mbit}mbit", "burst", "20k", "latency", "50ms"]
        on = ["-n", self.namespaces[sender], "qdisc", "change", "dev", f"to{receiver}", "root"]
        command("tc", *on, *change)


def address(host: int) -> str:
    return f"10.216.0.{host + 1}/32"


def join(names: list[str], one: int, other: int, mbit: float) -> None:
    ends = ["type", "veth", "peer", "name", f"to{one}", "netns", names[other]]
    command("ip", "link", "add", f"to{other}", "netns", names[one], *ends)
    for here, there in ((one, other), (other, one)):
        up(names[here], f"to{there}")
        route = [address(there), "dev", f"to{there}", "src", address(here).removesuffix("/32")]
        command("ip", "-n", names[here], "route", "add", *route)
        shaped(names[here], f"to{there}", mbit)


@contextmanager
def pair_hosts(count: int, mbit: float, slow: Mapping[tuple[int, int], float] | None = None):
    """The hosts, for as long as they last; `slow`: (sender, receiver) -> Mbit/s.

    Raises OSError where they cannot be made: namespaces need privileges.
    """
    names = [f"ringwood-{os.getpid()}-pair{host}" for host in range(count)]
    try:
        for host, name in enumerate(names):
            command("ip", "netns", "add", name)
            command("ip", "-n", name, "link", "set", "lo", "up")
            # What has the host's address; packets leave by the cables.
            ends = ["type", "veth", "peer", "name", "unused"]
            command("ip", "-n", name, "link", "add", "rail0", *ends)
            command("ip", "-n", name, "address", "add", address(host), "dev", "rail0")
            up(name, "rail0", "unused")
        for one, other in combinations(range(count), 2):
            join(names, one, other, mbit)
        hosts = PairHosts(names)
        for (sender, receiver), rate in (slow or {}).items():
            hosts.slow_down(sender, receiver, rate)
        yield hosts
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def run_on(
    hosts: PairHosts | Cluster,
    words: Iterable[str],
    environment: dict[str, str],
    seconds: float = PATIENCE_S,
) -> list[tuple[int, str, str]]:
    """The command as each rank of the hosts; exit code, standard output and error by rank."""
    ranks = []
    try:
        for rank in range(hosts.ranks):
            namespace, variables = hosts.place(rank)
            ranks.append(
                subprocess.Popen(
                    ["ip", "netns", "exec", namespace, *words],
                    env={**environment, **variables},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        results = []
        for rank in ranks:
            out, err = rank.communicate(timeout=seconds)
            results.append((rank.returncode, out, err))
        return results
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def windowed(on: Cluster, most: int) -> None:
    """A connection has at most so many bytes on the way, as on long ways with small buffers."""
    for namespace in on.namespaces:
        for knob in ("rmem", "wmem"):
            limits = f"net.ipv4.tcp_{knob}=4096 {most} {most}"
            told = ["ip", "netns", "exec", namespace, "sysctl", "-qw", limits]
            subprocess.run(told, check=True)


@contextmanager
def counted_connections(namespace: str):
    """A list that has, in the end, the most TCP connections that a host had at once."""
    count = "while sleep 0.02; do grep -c '^ *[0-9]*: [^ ]* [^ ]* 01 ' /proc/net/tcp; done"
    words = ["ip", "netns", "exec", namespace, "sh", "-c", count]
    watch = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    most: list[int] = []
    try:
        yield most
    finally:
        watch.kill()
        most.append(max(map(int, watch.communicate()[0].split())))

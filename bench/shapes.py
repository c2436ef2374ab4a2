"""Small clusters made of network namespaces: hosts at leaf switches, which a middle joins. Every
port, and the middle, is shaped to a rate; for bench/shaped."""

import os
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from networks import command

PROGRAMS = Path(__file__).resolve().parent / "programs"
# Of a packet. Few of them fit into the token bucket, so that a message of some pages is shaped too.
MTU, LARGEST_PACKET, BURST = "9000", "16384", "20k"


@dataclass(frozen=True)
class Shape:
    """Of a cluster. Rates are in Mbit/s, in each direction, of a port of one host."""

    what: str
    rate: float = 400
    hosts: int = 4
    ranks_per_host: int = 1
    rails: int = 1  # ports of each host; its ranks take them in turns
    slow_port: tuple[int, int, float] | None = None  # host, rail, factor of its rate
    slow_out: tuple[int, int, float] | None = None  # the same, of what leaves the host only
    middle: float = 0  # the hosts' rate by that of the middle between two leaves; 0: one leaf
    delay_ms: float = 0  # one way

    @property
    def ranks(self) -> int:
        return self.hosts * self.ranks_per_host

    @property
    def leaves(self) -> int:
        return 2 if self.middle else 1

    def rate_of(self, host: int, rail: int, out: bool = False) -> float:
        """Into the host, or out of it."""
        factors = [self.slow_port, self.slow_out] if out else [self.slow_port]
        slow = (f[2] for f in factors if f and f[:2] == (host, rail))
        return self.rate * min(slow, default=1)


SHAPES = {
    "equal": Shape("4 hosts, equal"),
    "equal8": Shape("8 hosts, equal", hosts=8, rate=200),
    "pairs": Shape("4 hosts of 2 ranks, equal", ranks_per_host=2),
    "slow-host": Shape("4 hosts, one at a quarter of the rate", slow_port=(2, 0, 0.25)),
    "slow-rail": Shape(
        "4 hosts of 2 ranks, 2 ports each, one port at a quarter of the rate",
        ranks_per_host=2,
        rails=2,
        rate=200,
        slow_port=(1, 1, 0.25),
    ),
    "middle": Shape("8 hosts at 2 leaves, 2:1 between them", hosts=8, rate=200, middle=2),
    "slow-out": Shape("4 hosts, one sends at a tenth of the rate", rate=100, slow_out=(2, 0, 0.1)),
    "delay": Shape("4 hosts, 1 ms one way", rate=200, delay_ms=1),
}


@dataclass
class Cluster:
    """`namespaces` of the hosts, in order; ranks are numbered host by host."""

    shape: Shape
    namespaces: list[str]

    @property
    def ranks(self) -> int:
        return self.shape.ranks

    def place(self, rank: int) -> tuple[str, dict[str, str]]:
        """The rank's namespace, and what tells it who and where it is."""
        host, index = divmod(rank, self.shape.ranks_per_host)
        variables = {
            "RANK": str(rank),
            "WORLD_SIZE": str(self.shape.ranks),
            "LOCAL_RANK": str(index),
            "RINGWOOD_HOST_ID": f"host{host}",
            "RINGWOOD_SOCKET_IFNAME": f"rail{index % self.shape.rails}",
            # All hosts share this machine's cores: a spinning rank would take a core from another
            # host, which no host of a real cluster can do.
            "RINGWOOD_SPIN_US": "0",
        }
        return self.namespaces[host], variables


def shaped(namespace: str, interface: str, rate: float) -> None:
    """What leaves the interface does so at this rate."""
    shape = ["tbf", "rate", f"{rate}mbit", "burst", BURST, "latency", "50ms"]
    command("tc", "-n", namespace, "qdisc", "add", "dev", interface, "root", *shape)


def up(namespace: str, *interfaces: str) -> None:
    for name in interfaces:
        limits = ["mtu", MTU, "gso_max_size", LARGEST_PACKET]
        command("ip", "-n", namespace, "link", "set", name, *limits, "up")


def bridge(namespace: str, name: str) -> None:
    command("ip", "-n", namespace, "link", "add", name, "type", "bridge")
    up(namespace, name)


def plug_in(shape: Shape, switch: str, namespace: str, host: int, rail: int) -> None:
    """A cable from a port of the host to its leaf, shaped at both ends."""
    leaf = f"leaf{host * shape.leaves // shape.hosts}r{rail}"
    port = f"h{host}r{rail}"
    if not shape.delay_ms:
        other = ["peer", "name", port, "netns", switch]
        command("ip", "link", "add", f"rail{rail}", "netns", namespace, "type", "veth", *other)
    command("ip", "-n", switch, "link", "set", port, "master", leaf)
    up(switch, port)
    address = f"10.{214 + rail}.0.{host + 1}/24"
    command("ip", "-n", namespace, "address", "add", address, "dev", f"rail{rail}")
    up(namespace, f"rail{rail}")
    shaped(namespace, f"rail{rail}", shape.rate_of(host, rail, out=True))
    shaped(switch, port, shape.rate_of(host, rail))


def delayed_cables(shape: Shape, switch: str, hosts: list[str], folder: str) -> subprocess.Popen:
    """The cables of all hosts, as a process that passes their packets on."""
    program = f"{folder}/delay_line"
    command("gcc", "-O2", str(PROGRAMS / "delay_line.c"), "-o", program)
    cables = [
        f"{namespace}:rail{rail}={switch}:h{host}r{rail}"
        for host, namespace in enumerate(hosts)
        for rail in range(shape.rails)
    ]
    # A packet goes through the cables of both hosts.
    words = [program, str(round(shape.delay_ms * 1000 / 2)), *cables]
    line = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    if line.stdout.readline() != "ready\n":
        line.kill()
        raise OSError(f"{program} has ended with {line.wait()}")
    return line


def build(shape: Shape, switch: str, hosts: list[str]) -> None:
    for rail in range(shape.rails):
        for leaf in range(shape.leaves):
            bridge(switch, f"leaf{leaf}r{rail}")
        for host, namespace in enumerate(hosts):
            plug_in(shape, switch, namespace, host, rail)
        if shape.middle:
            ends = [f"up{leaf}r{rail}" for leaf in range(2)]
            command(
                *("ip", "-n", switch, "link", "add", ends[0]),
                *("type", "veth", "peer", "name", ends[1]),
            )
            for leaf, end in enumerate(ends):
                command("ip", "-n", switch, "link", "set", end, "master", f"leaf{leaf}r{rail}")
                up(switch, end)
                shaped(switch, end, shape.rate * shape.hosts / 2 / shape.middle)


@contextmanager
def cluster(shape: Shape):
    """The cluster, for as long as it lasts; whatever ends the bench, the namespaces go too.

    Raises OSError where it cannot be made: namespaces need privileges.
    """
    switch = f"ringwood-{os.getpid()}-switch"
    hosts = [f"ringwood-{os.getpid()}-{host}" for host in range(shape.hosts)]

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = {s: signal.signal(s, end) for s in (signal.SIGTERM, signal.SIGHUP)}
    cables = None
    try:
        for name in [switch, *hosts]:
            command("ip", "netns", "add", name)
            command("ip", "-n", name, "link", "set", "lo", "up")
        if shape.delay_ms:
            with tempfile.TemporaryDirectory(prefix="shapes-") as folder:
                cables = delayed_cables(shape, switch, hosts, folder)
        build(shape, switch, hosts)
        yield Cluster(shape, hosts)
    finally:
        if cables:
            cables.kill()
            cables.wait()
        for name in [*hosts, switch]:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
        for number, handler in before.items():
            signal.signal(number, handler)

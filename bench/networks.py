"""The networks over which bench/peers measures TCP: two hosts made of network namespaces, joined by
a virtual cable that is free or shaped to 1 Gbit/s; and the loopback of this host."""

import ctypes
import os
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field

CLONE_NEWNET = 0x40000000
INTERFACE = "eth0"  # of each end of the cable
GIGABIT = "1gbit"


@dataclass
class Network:
    """`hosts`: the namespace and the address of each of two hosts; none: the loopback."""

    name: str
    hosts: list[tuple[str, str]] = field(default_factory=list)

    @property
    def namespaces(self) -> list[str]:
        return [name for name, _ in self.hosts]

    def variables(self) -> dict[str, str]:
        """What ringwood and gloo need to be told to use it."""
        interface = INTERFACE if self.hosts else "lo"
        return {"GLOO_SOCKET_IFNAME": interface, "RINGWOOD_TRANSPORTS": "tcp"}


NETWORKS = {
    "cable": "two network namespaces, joined by a pair of virtual interfaces",
    "gigabit": "the same, shaped to 1 Gbit/s in each direction",
    "loopback": "the loopback, TCP forced",
}


def command(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


def enter(namespace: str) -> None:
    """This thread, and what it starts from now on, are on that host."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}") as handle:
        if libc.setns(handle.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {namespace}")


def placed(rank: int, namespaces: list[str], command: list[str]) -> list[str]:
    """The command on the rank's host, on a core of its own where there are enough; it ends with
    the process that starts it."""
    cores = sorted(os.sched_getaffinity(0))
    words = ["setpriv", "--pdeathsig", "KILL"]
    if len(cores) > rank:
        words += ["taskset", "--cpu-list", str(cores[rank])]
    where = ["ip", "netns", "exec", namespaces[rank]] if namespaces else []
    return [*where, *words, *command]


def join(hosts: list[tuple[str, str]], rate: str) -> None:
    (one, _), (other, _) = hosts
    ends = [INTERFACE, "netns", one, "type", "veth", "peer", "name", INTERFACE, "netns", other]
    command("ip", "link", "add", *ends)
    for name, address in hosts:
        command("ip", "-n", name, "address", "add", f"{address}/24", "dev", INTERFACE)
        command("ip", "-n", name, "link", "set", INTERFACE, "up")
        if rate:
            shape = ["tbf", "rate", rate, "burst", "128k", "latency", "50ms"]
            command("tc", "-n", name, "qdisc", "add", "dev", INTERFACE, "root", *shape)
    for name, _ in hosts:
        running = f"cat /sys/class/net/{INTERFACE}/operstate"
        for _attempt in range(100):
            told = subprocess.run(
                ["ip", "netns", "exec", name, *running.split()], text=True, capture_output=True
            ).stdout.strip()
            if told == "up":
                break
            time.sleep(0.02)


@contextmanager
def network(name: str):
    """The network, for as long as it lasts; whatever ends the bench, the namespaces go too.

    Raises OSError where it cannot be made: namespaces need privileges.
    """
    if name == "loopback":
        yield Network(name)
        return
    hosts = [(f"ringwood-{os.getpid()}-{side}", f"10.213.8.{side}") for side in (1, 2)]

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = {s: signal.signal(s, end) for s in (signal.SIGTERM, signal.SIGHUP)}
    try:
        for host, _ in hosts:
            command("ip", "netns", "add", host)
            command("ip", "-n", host, "link", "set", "lo", "up")
        join(hosts, GIGABIT if name == "gigabit" else "")
        yield Network(name, hosts)
    finally:
        for host, _ in hosts:
            subprocess.run(["ip", "netns", "delete", host], capture_output=True)
        for number, handler in before.items():
            signal.signal(number, handler)

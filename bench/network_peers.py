"""bench/peers --networks: all-reduce over TCP, beside gloo, Open MPI's TCP and iperf3.

Each network (networks.py) has its own contestants, sizes and targets. Below 16 KiB operations are
repeated on one buffer; from there on every rank writes it before and reads it after each.
"""

import json
import shutil
import sys
import time
from collections import defaultdict

from contestants import (
    BENCH,
    OPENMPI_OPTIONS,
    Contestant,
    Paths,
    compile_helper,
    ringwood,
    torch,
    with_variables,
)
from network_report import write_report
from networks import NETWORKS, Network, network
from rounds import Surroundings, first_match, numbered_rounds, run, say

TOUCHED_FROM = 16384
RANKS = 2
SIZES = {
    "cable": "8,1024,4096,16384,65536,262144,1048576,4194304,16777216,67108864",
    "gigabit": "8,4096,4194304,16777216",
    "loopback": "8,1024,4096,16384,65536,262144,1048576,4194304,16777216,67108864",
}


def parts(sizes: str) -> list[tuple[str, str]]:
    """The sizes of each mode."""
    numbers = [int(size) for size in sizes.split(",")]
    small = ",".join(str(n) for n in numbers if n < TOUCHED_FROM)
    large = ",".join(str(n) for n in numbers if n >= TOUCHED_FROM)
    return [(mode, some) for mode, some in (("plain", small), ("touched", large)) if some]


def our_perf(paths: Paths, name: str, **more: str) -> Contestant:
    """`ringwood perf`, one rank on each host. Its start takes the network before the sizes."""
    inner = ringwood(paths, name, "private")

    def start(net: Network, sizes: str, mode: str) -> list[str]:
        (command,) = inner.start(RANKS, sizes, [mode])
        if net.hosts:
            at = command.index("--ranks")
            command = [*command[:at], *command[at + 2 :], "--rendezvous", "file://{store}"]
            script = str(BENCH / "on_hosts.py")
            command = [paths.python, script, ",".join(net.namespaces), *command]
        return with_variables({**net.variables(), **more}, *command)

    return Contestant(name, start, inner.missing, inner.version)


def in_torch(paths: Paths, name: str, backend: str) -> Contestant:
    inner = torch(paths, name, backend)

    def start(net: Network, sizes: str, mode: str) -> list[str]:
        (command,) = inner.start(RANKS, sizes, [mode])
        if net.hosts:
            command = [*command, "--hosts", ",".join(net.namespaces)]
        return with_variables(net.variables(), *command)

    return Contestant(name, start, inner.missing, inner.version)


def openmpi(paths: Paths) -> Contestant:
    program = paths.helpers / "mpi_collectives.openmpi"
    missing = compile_helper("mpicc.openmpi", "mpi_collectives.c", program)

    def start(_net: Network, sizes: str, mode: str) -> list[str]:
        options = [*OPENMPI_OPTIONS, "--mca", "btl", "tcp,self", "-n", str(RANKS)]
        return ["mpirun.openmpi", *options, str(program), sizes, mode, "all_reduce"]

    version = ("openmpi", ["mpirun.openmpi", "--version"], r"(\d+\.\d+\.\d+)")
    return Contestant("openmpi-tcp", start, missing, version)


def iperf3(paths: Paths) -> Contestant:
    def start(net: Network, _sizes: str, mode: str) -> list[str]:
        if mode != "touched":  # it needs to run once only
            return []
        address = net.hosts[1][1] if net.hosts else "127.0.0.1"
        return [paths.python, str(BENCH / "iperf.py"), ",".join(net.namespaces), address]

    missing = "" if shutil.which("iperf3") else "iperf3 is not installed (Debian: iperf3)"
    return Contestant("iperf3", start, missing, ("iperf3", ["iperf3", "-v"], r"iperf (\S+)"))


# In the order in which they take turns.
TABLE = {
    "iperf3": iperf3,
    "ringwood": lambda p: our_perf(p, "ringwood"),
    "ringwood-sleeping": lambda p: our_perf(p, "ringwood-sleeping", RINGWOOD_SPIN_US="0"),
    "ringwood-bf16": lambda p: our_perf(p, "ringwood-bf16", RINGWOOD_TOLERANCE="0.004"),
    "ringwood-int8": lambda p: our_perf(p, "ringwood-int8", RINGWOOD_TOLERANCE="0.016"),
    "openmpi-tcp": openmpi,
    "torch-ringwood": lambda p: in_torch(p, "torch-ringwood", "ringwood"),
    "torch-gloo": lambda p: in_torch(p, "torch-gloo", "gloo"),
}
EVERYWHERE = ["iperf3", "ringwood", "torch-ringwood", "torch-gloo"]
TAKING_PART = {
    "cable": EVERYWHERE,
    "gigabit": [*EVERYWHERE, "ringwood-sleeping", "ringwood-bf16", "ringwood-int8"],
    "loopback": [*EVERYWHERE, "openmpi-tcp"],
}


def rows_of(output: str, mode: str) -> list[dict]:
    """Mode, bytes, best_us, median_us and, of ours, cpu_percent and algorithm."""
    if '"rows"' not in output:
        return [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    names = {"time_us_best": "best_us", "time_us_median": "median_us"}
    kept = ("bytes", "time_us_best", "time_us_median", "cpu_percent", "algorithm", "segments")
    return [
        {"mode": mode, **{names.get(key, key): row[key] for key in kept if key in row}}
        for row in json.loads(output)["rows"]
    ]


class Measurement:
    """(network, contestant, bytes) -> the rows of all rounds; what went wrong; the machine."""

    def __init__(self) -> None:
        self.rows, self.failures, self.around = defaultdict(list), [], Surroundings()

    def round_of(self, net: Network, sizes: str, taking_part: list[Contestant]) -> None:
        say(f"  {net.name}, foreign load {self.around.before_round():.0%}")
        for who in taking_part:
            start = time.monotonic()
            for mode, some in parts(sizes):
                command = who.start(net, some, mode)
                if not command:
                    continue
                try:
                    rows = rows_of(run(command), mode)
                except RuntimeError as error:
                    say(f"  {who.name} failed: {error}")
                    self.failures.append(f"{who.name}, {net.name}: {str(error).splitlines()[0]}")
                    continue
                for row in rows:
                    self.rows[net.name, who.name, row["bytes"]].append(row)
            say(f"    {who.name:<19} {time.monotonic() - start:5.1f} s")


def measure(args, everybody: dict[str, Contestant]) -> Measurement:
    told = Measurement()
    for number in numbered_rounds(args.rounds, args.minutes * 60):
        say(f"round {number + 1} of {args.rounds}")
        for name in args.networks:
            who = [everybody[n] for n in TABLE if n in TAKING_PART[name] and n in everybody]
            try:
                with network(name) as net:
                    told.round_of(net, args.sizes or SIZES[name], who)
            except OSError as refusal:
                if number == 0:
                    say(f"without {name} ({NETWORKS[name]}): {refusal}")
                    told.failures.append(f"{name}: {refusal}")
    return told


def main(args) -> int:
    """`args` as bench/peers has parsed them. Returns the exit code."""
    paths = Paths(args.build.resolve(), args.python, None)
    everybody = {name: make(paths) for name, make in TABLE.items() if name in (args.only or TABLE)}
    for who in everybody.values():
        if who.missing:
            say(f"without {who.name}: {who.missing}")
    everybody = {name: who for name, who in everybody.items() if not who.missing}
    versions = {who.version[0]: first_match(*who.version[1:]) for who in everybody.values()}
    told = measure(args, everybody)
    if not told.rows:
        say("nothing was measured")
        return 1
    machine = told.around.machine(versions)
    rounds = max(len(rows) for rows in told.rows.values())
    settings = told.around.settings(rounds, failures=told.failures)
    write_report(args.output, machine, settings, told.rows)
    return 1 if any("ringwood" in failure for failure in told.failures) else 0


if __name__ == "__main__":
    sys.exit("run bench/peers --networks")

"""Ranks of torch.distributed to which something happens, for bench/promises: when it happened, and
when every other rank was told.

Each function measures once and returns seconds. It raises where a rank is told something else, so
that what is fast and wrong is no promise kept.
"""

import ctypes
import multiprocessing
import os
import signal
import tempfile
import time
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from networks import command, enter
from shapes import Shape, cluster

FORK = multiprocessing.get_context("fork")
PR_SET_PDEATHSIG = 1
# Longer than any run: no time-out ends what is measured.
HOURS = timedelta(hours=1)
HANGS_S = 60
IN_THE_MIDDLE_S = 0.3
COUNT = 1 << 18  # of numbers: a megabyte


class Go:
    """An event of the ranks that does not wait for one that was killed, as Python's would."""

    def __init__(self) -> None:
        self.reads, self.writes = os.pipe()

    def set(self) -> None:
        os.write(self.writes, b"." * 64)

    def wait(self) -> None:
        os.read(self.reads, 1)


class Ranks:
    """`body(rank, say, go)` in a process per rank, with a group. `say` tells this process a text
    and the time, `go` is set by this process."""

    def __init__(self, size: int, body, folder: str, hosts=None, **variables: str) -> None:
        self.go = Go()
        self.ends, self.processes = [], []
        for rank in range(size):
            ours, theirs = FORK.Pipe(duplex=False)
            host, own = hosts.place(rank) if hosts else ("", {})
            begin = {"init_method": f"file://{folder}/store", "rank": rank, "world_size": size}
            words = (body, begin, theirs, host, {**own, **variables})
            process = FORK.Process(target=self.run, args=words, daemon=True)
            process.start()
            theirs.close()
            self.ends.append(ours)
            self.processes.append(process)

    def run(self, body, begin: dict, end, host: str, variables: dict) -> None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if host:
            enter(host)
        os.environ.update(variables)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        torch.set_num_threads(1)
        dist.init_process_group("ringwood", timeout=HOURS, **begin)
        dist.barrier()
        try:
            body(begin["rank"], lambda text: end.send((text, time.monotonic())), self.go)
        except (dist.DistBackendError, KeyboardInterrupt) as told:
            end.send((f"{type(told).__name__}: {told}", time.monotonic()))
        self.go.wait()
        os._exit(0)

    def heard(self, rank: int, *parts: str) -> float:
        """When the rank said this."""
        if not self.ends[rank].poll(HANGS_S):
            raise RuntimeError(f"rank {rank} does not say {parts}")
        text, when = self.ends[rank].recv()
        if not all(part in text for part in parts):
            raise RuntimeError(f"rank {rank} said {text!r} instead of {parts}")
        return when

    def signal(self, rank: int, number: int) -> float:
        began = time.monotonic()
        os.kill(self.processes[rank].pid, number)
        return began


@contextmanager
def ranks(size: int, body, hosts=None, **variables: str):
    with tempfile.TemporaryDirectory(prefix="promises-") as folder:
        made = Ranks(size, body, folder, hosts, **variables)
        try:
            yield made
        finally:
            for process in made.processes:
                process.kill()
                process.join()


def again_and_again(_rank: int, say, _go) -> None:
    say("begun")
    while True:
        dist.all_reduce(torch.ones(COUNT))


def one_after_the_news(_rank: int, say, go) -> None:
    say("begun")
    go.wait()
    dist.all_reduce(torch.ones(COUNT))


def killed(size: int, transports: str, inside: bool) -> float:
    """From the kill, or from the next call, until the last of the others names the rank."""
    victim = size - 1
    body = again_and_again if inside else one_after_the_news
    with ranks(size, body, RINGWOOD_TRANSPORTS=transports) as on:
        for rank in range(size):
            on.heard(rank, "begun")
        time.sleep(IN_THE_MIDDLE_S)
        began = on.signal(victim, signal.SIGKILL)
        if not inside:
            time.sleep(5 * IN_THE_MIDDLE_S)
            began = time.monotonic()
            on.go.set()
        return max(on.heard(rank, f"rank {victim}", "died") for rank in range(victim)) - began


def mismatch() -> float:
    """From the last rank's call until the last is told."""

    def body(rank: int, say, _go) -> None:
        say("begun")
        dist.barrier() if rank == 1 else dist.all_reduce(torch.ones(4))

    with ranks(3, body) as on:
        began = max(on.heard(rank, "begun") for rank in range(3))
        return max(on.heard(rank, "mismatch", "rank 1") for rank in range(3)) - began


def aborted() -> float:
    """From one rank's call of abort until the last of the others, which wait for it, is told."""

    def body(rank: int, say, _go) -> None:
        say("begun")
        if rank > 0:
            dist.all_reduce(torch.ones(4))
        time.sleep(IN_THE_MIDDLE_S)
        say("aborts")
        dist.group.WORLD._get_backend(torch.device("cpu")).abort()

    with ranks(4, body) as on:
        for rank in range(4):
            on.heard(rank, "begun")
        began = on.heard(0, "aborts")
        return max(on.heard(rank, "abort") for rank in (1, 2, 3)) - began


def interrupted() -> float:
    """From Ctrl-C in one rank until it has left the call and the other one that waits is told."""

    def body(rank: int, say, go) -> None:
        say("begun")
        if rank == 0:  # which does not come
            go.wait()
        dist.all_reduce(torch.ones(4))

    with ranks(3, body) as on:
        for rank in range(3):
            on.heard(rank, "begun")
        time.sleep(IN_THE_MIDDLE_S)
        began = on.signal(1, signal.SIGINT)
        last = on.heard(1, "KeyboardInterrupt:")
        return max(last, on.heard(2, "rank 1", "KeyboardInterrupt")) - began


def timed_out(limit_s: float) -> float:
    """How long after its time-out a call ends."""

    def body(rank: int, say, go) -> None:
        if rank == 1:
            go.wait()
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        backend.set_timeout(timedelta(seconds=limit_s))
        say("begun")
        dist.all_reduce(torch.ones(4))

    with ranks(2, body) as on:
        began = on.heard(0, "begun")
        return on.heard(0, "not finished within", "missing: rank 1") - began - limit_s


def dark_host() -> float:
    """From the moment when a host of three is cut off until the last of the others names it."""
    shape = Shape("three hosts", hosts=3)
    tcp = {"RINGWOOD_TRANSPORTS": "tcp", "RINGWOOD_CALIBRATION": "off"}
    with cluster(shape) as hosts, ranks(3, again_and_again, hosts, **tcp) as on:
        for rank in range(3):
            on.heard(rank, "begun")
        time.sleep(IN_THE_MIDDLE_S)
        switch = hosts.namespaces[0].rpartition("-")[0] + "-switch"
        command("ip", "-n", switch, "link", "set", "h2r0", "down")
        began = time.monotonic()
        return max(on.heard(rank, "rank 2") for rank in (0, 1)) - began

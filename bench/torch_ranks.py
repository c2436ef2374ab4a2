"""Forks the ranks of a torch.distributed benchmark and makes their process group."""

import ctypes
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import wait

import torch
import torch.distributed as dist
from networks import enter

PR_SET_PDEATHSIG = 1


def pin(rank: int, ranks: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= ranks:
        os.sched_setaffinity(0, {cores[rank]})


def run_rank(
    place: tuple[int, int, str], backend: str, store: str, body: Callable[[int], None]
) -> None:
    """`place`: rank, number of ranks, network namespace ("": this one)."""
    rank, ranks, host = place
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if host:
        enter(host)
    pin(rank, ranks)
    torch.set_num_threads(1)
    if backend not in ("gloo", "mpi"):
        __import__(backend)
    dist.init_process_group(
        backend,
        init_method=f"file://{store}",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=120),
    )
    body(rank)
    dist.destroy_process_group()


def fork_ranks(
    backend: str, ranks: int, body: Callable[[int], None], hosts: list[str] | None = None
) -> int:
    """Runs `body(rank)` in a process per rank, each on a core of its own where there are enough,
    and in a network namespace of its own if `hosts` names them.

    Returns the first exit code that is not 0; then the other ranks are ended.
    """
    # torch is imported once and the ranks are forked: on few cores an import costs seconds.
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="torch-ranks-") as folder:
        store = os.path.join(folder, "store")
        running = [
            context.Process(
                target=run_rank,
                args=((rank, ranks, hosts[rank] if hosts else ""), backend, store, body),
            )
            for rank in range(ranks)
        ]
        for process in running:
            process.start()
        while running:
            wait([process.sentinel for process in running])
            for process in running:
                process.join(0)
            failed = [abs(process.exitcode) for process in running if process.exitcode]
            running = [process for process in running if process.exitcode is None]
            if failed:
                for process in running:
                    process.kill()
                    process.join()
                return failed[0]
    return 0

"""Ctrl-C, and other signals with a handler in Python, while a rank waits for the others."""

import contextlib
import multiprocessing
import os
import signal
import threading

import pytest
import torch
import torch.distributed as dist
from backend_ranks import BACKEND, run_ranks, seconds
from processes import NEVER_S, PATIENCE_S, wait_until_asleep

pytestmark = pytest.mark.skipif(BACKEND != "ringwood", reason="gloo waits on")
FORK = multiprocessing.get_context("fork")
WAITING = 1  # the rank that waits and is interrupted


def nothing() -> None:
    pass


# What waits, each with what it calls in the line before.
def synchronous(size: int, begin=nothing) -> None:
    begin()
    dist.all_reduce(torch.ones(4))


def asynchronous(size: int, begin=nothing) -> None:
    begin()
    dist.all_reduce(torch.ones(4), async_op=True).wait()


def large(size: int, begin=nothing) -> None:
    begin()
    dist.all_reduce(torch.ones(1 << 20))


def gather(size: int, begin=nothing) -> None:
    begin()
    dist.all_gather([torch.zeros(4) for _ in range(size)], torch.ones(4))


def sparse(size: int, begin=nothing) -> None:
    begin()
    dist.all_reduce(torch.eye(3).to_sparse())


def receive(size: int, begin=nothing) -> None:
    begin()
    dist.recv(torch.zeros(4), src=0 if dist.get_rank() else 1)


def monitored(size: int, begin=nothing) -> None:
    import ringwood

    begin()
    ringwood.monitored_barrier()


def behind_another_thread(size: int, begin=nothing) -> None:
    """The other thread moves the data; this one only waits for it."""

    def drive() -> None:
        with contextlib.suppress(dist.DistBackendError):
            dist.barrier()

    other = threading.Thread(target=drive)
    other.start()
    try:
        wait_until_asleep(other.native_id, os.getpid())
        begin()
        dist.all_reduce(torch.ones(4))
    finally:
        other.join()


def handler_that_raises(number, frame):
    raise KeyboardInterrupt


def interrupt_when_it_waits(begun) -> None:
    """From another process, as a terminal does; `begun`: in its next line it waits."""
    target, ours = os.getpid(), os.fork()
    if ours == 0:
        with contextlib.suppress(BaseException):
            begun.wait()
            wait_until_asleep(target, target)
            os.kill(target, signal.SIGINT)
        os._exit(0)


@pytest.mark.parametrize(
    "wait",
    [synchronous, asynchronous, large, gather, sparse, receive, monitored, behind_another_thread],
)
def test_interrupted_wait(wait):
    together, begun, interrupted = FORK.Barrier(3), FORK.Event(), FORK.Event()

    def body(rank, size):
        dist.barrier()
        together.wait()  # the interruption is not to meet another rank in the barrier
        if rank == WAITING:
            signal.signal(signal.SIGINT, handler_that_raises)
            interrupt_when_it_waits(begun)
            with pytest.raises(KeyboardInterrupt):  # there is no time-out that could end it
                wait(size, begun.set)
            os.wait()
            interrupted.set()
            with pytest.raises(dist.DistBackendError, match="interrupted"):
                dist.barrier()
            return
        if rank == 0:  # the one that does not come
            assert interrupted.wait(PATIENCE_S)
        # What the interrupted rank had sent before may still complete a wait.
        with pytest.raises(dist.DistBackendError) as raised:
            while True:
                wait(size)
        assert "rank 1" in str(raised.value)
        assert "KeyboardInterrupt" in str(raised.value)

    run_ranks(3, body)


def test_a_handler_that_returns_does_not_disturb():
    begun, handled = FORK.Event(), FORK.Event()

    def body(rank, size):
        dist.barrier()
        tensor = torch.full((4,), float(rank))
        if rank == WAITING:
            signal.signal(signal.SIGINT, lambda number, frame: handled.set())
            interrupt_when_it_waits(begun)
            begun.set()
        else:
            assert handled.wait(PATIENCE_S)  # while the other rank waits for this one
        dist.all_reduce(tensor)
        if rank == WAITING:
            os.wait()
        return tensor.tolist()

    assert run_ranks(2, body) == [[1.0] * 4] * 2


def test_interrupted_while_ranks_meet(tmp_path):
    begun = FORK.Event()

    def body(rank, size):
        signal.signal(signal.SIGINT, handler_that_raises)
        interrupt_when_it_waits(begun)
        store = dist.FileStore(str(tmp_path / "store"), 2)
        begun.set()
        with pytest.raises(KeyboardInterrupt):
            dist.init_process_group(
                BACKEND, store=store, rank=0, world_size=2, timeout=seconds(NEVER_S)
            )
        os.wait()

    run_ranks(1, body, group=False)

"""What a backend says of itself: its time-out, and the error that ended it."""

import multiprocessing
import re
import time

import pytest
import torch
import torch.distributed as dist
from backend_ranks import BACKEND, run_ranks, seconds
from processes import NEVER_S, PATIENCE_S
from torch._C._distributed_c10d import ErrorType, _ProcessGroupWrapper
from wakeups import growing_limit, measures_again

pytestmark = pytest.mark.skipif(BACKEND != "ringwood", reason="what ringwood says")
FORK = multiprocessing.get_context("fork")
CPU = torch.device("cpu")


def backend(group=None):
    return (group or dist.group.WORLD)._get_backend(CPU)


def error_of(group=None):
    """torch 2.13 asks a backend for its error through its wrapper for debugging only."""
    gloo = dist.ProcessGroupGloo(dist.HashStore(), 0, 1)
    return _ProcessGroupWrapper(backend(group), gloo).get_error()


def test_time_out_that_was_set_ends_a_call():
    over = FORK.Event()

    def body(rank, size):
        dist.barrier()
        backend().set_timeout(seconds(0.4))
        if rank == 1:
            assert over.wait(PATIENCE_S)
            return
        with pytest.raises(dist.DistBackendError) as raised:
            dist.all_reduce(torch.ones(4))
        over.set()
        assert re.search(r"not finished within 0\.4 s.*rank 1", str(raised.value))

    run_ranks(2, body)


@measures_again
def test_time_out_that_was_set_lets_a_call_wait_longer():
    def check(limit_s):
        called = FORK.Event()

        def body(rank, size):
            backend().set_timeout(seconds(NEVER_S))
            if rank == 1:
                assert called.wait(PATIENCE_S)
                time.sleep(1.5 * limit_s)  # longer than the group's time-out was
            tensor = torch.ones(4)
            work = dist.all_reduce(tensor, async_op=True)
            called.set()
            work.wait()
            assert tensor.tolist() == [2.0] * 4

        run_ranks(2, body, group_timeout_s=limit_s)

    growing_limit(check)  # the group has to be made within it


def time_out(rank: int, group) -> None:
    backend(group).set_timeout(seconds(0.3))
    if rank == 0:
        dist.all_reduce(torch.ones(1), group=group)
    else:
        dist.recv(torch.ones(1), 0, group=group)


def mismatch(rank: int, group) -> None:
    dist.all_reduce(torch.ones(1 + rank), group=group)


def departure(rank: int, group) -> None:
    if rank == 1:
        backend(group).shutdown()
    dist.all_reduce(torch.ones(1), group=group)


def abort(rank: int, group) -> None:
    if rank == 1:
        backend(group).abort()
    dist.all_reduce(torch.ones(1), group=group)


# How a group ends, and what rank 0 and rank 1 are told.
ENDS = [
    (time_out, ErrorType.TIMEOUT, ErrorType.TIMEOUT),
    (mismatch, ErrorType.REMOTE_ERROR, ErrorType.REMOTE_ERROR),
    (departure, ErrorType.REMOTE_ERROR, ErrorType.COMM_ERROR),
    (abort, ErrorType.COMM_ERROR, ErrorType.COMM_ERROR),
]


@pytest.mark.parametrize("number", range(len(ENDS)))
def test_error_of_a_group(number):
    end, *expected = ENDS[number]
    used = FORK.Barrier(2)

    def body(rank, size):
        group = dist.new_group()
        assert error_of(group) == ErrorType.SUCCESS
        dist.barrier(group)
        assert error_of(group) == ErrorType.SUCCESS
        used.wait()  # an end is not to overtake the barrier of the other rank
        with pytest.raises(dist.DistBackendError):
            end(rank, group)
        assert error_of(group) == expected[rank]
        assert error_of() == ErrorType.SUCCESS  # of the default group
        dist.barrier()

    run_ranks(2, body)

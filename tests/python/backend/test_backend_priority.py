"""ringwood.high_priority(): which calls it is meant for, and that all are right."""

import threading
from contextlib import nullcontext

import pytest
import ringwood
import torch
import torch.distributed as dist
from backend_ranks import BACKEND, run_ranks

pytestmark = pytest.mark.skipif(BACKEND != "ringwood", reason="a function of ringwood's")


def test_small_calls_beside_a_large_one():
    def body(rank, size):
        large = torch.full((1 << 23,), float(rank + 1))
        total = size * (size + 1) / 2
        work = dist.all_reduce(large, async_op=True)
        for number in range(20):
            small = torch.full((10,), rank + number)
            gathered = torch.zeros(size)
            with ringwood.high_priority():
                dist.all_reduce(small)
                pending = dist.all_gather_into_tensor(
                    gathered, torch.tensor([rank + 1.0]), async_op=True
                )
                dist.broadcast(small, number % size)
            pending.wait()
            assert small.tolist() == [sum(range(size)) + size * number] * 10
            assert gathered.tolist() == [r + 1.0 for r in range(size)]
        work.wait()
        assert large.eq(total).all()
        after = torch.ones(3)
        dist.all_reduce(after)
        assert after.tolist() == [size] * 3

    run_ranks(3, body)


def in_another_thread(call) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def nested(call) -> None:
    with ringwood.high_priority():
        with ringwood.high_priority():
            pass
        call()


def after_an_exception(call) -> None:
    with pytest.raises(ZeroDivisionError), ringwood.high_priority():
        _ = 1 / 0
    call()


def from_another_thread(call) -> None:
    with ringwood.high_priority():
        in_another_thread(call)


def in_a_thread_of_its_own(call) -> None:
    def inside() -> None:
        with ringwood.high_priority():
            call()

    in_another_thread(inside)


def plain(call) -> None:
    call()


HIGH = [nested, in_a_thread_of_its_own]
NORMAL = [after_an_exception, from_another_thread, plain]


@pytest.mark.parametrize("way", [*HIGH, *NORMAL])
def test_what_is_of_high_priority(way):
    """Ranks agree where one calls it in this way and the other in the simplest, and else do not."""

    def call() -> None:
        dist.all_reduce(torch.ones(3))

    def simply(high: bool) -> None:
        with ringwood.high_priority() if high else nullcontext():
            call()

    def body(rank, size):
        expected = way in HIGH
        (way if rank == 0 else lambda call: simply(expected))(call)
        dist.barrier()
        with pytest.raises(dist.DistBackendError, match="high priority"):
            simply((rank == 0) == expected)

    run_ranks(2, body)

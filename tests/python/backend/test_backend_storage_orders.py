"""Tensors whose elements lie in memory in another order than that of their indices: where those of
all ranks lie alike they are moved as they lie, and where they do not the results are right, too.
"""

import math

import pytest
import torch
import torch.distributed as dist
from backend_ranks import BACKEND, run_ranks

pytestmark = pytest.mark.skipif(BACKEND != "ringwood", reason="what gloo copies is its own affair")
# More than travels with the fingerprints of a call, and less.
LARGE, SMALL = (4, 8, 32, 33), (1, 2, 3, 4)


def picture(rank: int, shape: tuple, last: bool) -> torch.Tensor:
    x = torch.arange(math.prod(shape), dtype=torch.float64).view(shape) + 1000 * rank
    return x.to(memory_format=torch.channels_last) if last else x


def copies_of(call) -> int:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    return [event.name for event in profile.events()].count("aten::copy_")


def check(x: torch.Tensor, want: torch.Tensor, last: bool, what: str) -> None:
    torch.testing.assert_close(x, want, msg=lambda text: f"{what}: {text}")
    form = torch.channels_last if last else torch.contiguous_format
    assert x.is_contiguous(memory_format=form), what


def calls_of(rank: int, size: int, shape: tuple, last: list[bool], in_a_list: bool) -> list[int]:
    """Makes calls in which `last[r]` says how the elements of rank r lie; returns their copies."""
    mine = last[rank]
    inputs = [picture(r, shape, False) for r in range(size)]
    root = size - 1
    calls = [
        (sum(inputs), dist.all_reduce, ()),
        (sum(inputs) / size, dist.all_reduce, (dist.ReduceOp.AVG,)),
        (inputs[root], dist.broadcast, (root,)),
        (sum(inputs) if rank == root else inputs[rank], dist.reduce, (root,)),
    ]
    copies = []
    # The profiler sees the copies of this thread: all of them, as no call was asynchronous before.
    for want, call, more in calls:
        x = picture(rank, shape, mine)
        copies.append(copies_of(lambda x=x, call=call, more=more: call(x, *more)))
        check(x, want, mine, f"{call.__name__} of {shape}, channels_last: {last}")
    for want, call, more in calls:
        x = picture(rank, shape, mine)
        call(x, *more, async_op=True).wait()
        check(x, want, mine, f"asynchronous {call.__name__} of {shape}, channels_last: {last}")
    if in_a_list:
        many = [picture(rank, shape, mine) for _ in range(3)]
        dist.all_reduce_coalesced(many)
        for x in many:
            check(x, sum(inputs), mine, f"coalesced, {shape}, channels_last: {last}")
    return copies


@pytest.mark.parametrize("size", [2, 3])
def test_equal_layouts_are_moved_as_they_lie(size):
    def body(rank, size):
        return calls_of(rank, size, LARGE, [True] * size, True)

    assert run_ranks(size, body) == [[0] * 4] * size


def test_a_layout_of_one_rank_is_copied_there_in_and_out():
    def body(rank, size):
        x = picture(rank, LARGE, rank == 0)
        return copies_of(lambda: dist.all_reduce(x))

    assert run_ranks(2, body) == [2, 0]


@pytest.mark.parametrize("size", [2, 3])
def test_different_layouts_give_right_results(size):
    def body(rank, size):
        for shape in (LARGE, SMALL):
            for odd in range(size):
                for usual in (True, False):
                    last = [usual != (r == odd) for r in range(size)]
                    calls_of(rank, size, shape, last, usual)
            calls_of(rank, size, shape, [True] * size, True)

    run_ranks(size, body)


def test_equal_numbers_of_elements_in_other_shapes_are_right():
    """Their elements lie in different orders, though both lie in channels_last."""

    def body(rank, size):
        shape = (4, 8, 32, 33) if rank == 0 else (4, 32, 8, 33)
        x = picture(rank, shape, True)
        dist.all_reduce(x)
        want = sum(picture(r, (4 * 8 * 32 * 33,), False) for r in range(size)).view(shape)
        check(x, want, True, "other shapes")

    run_ranks(2, body)

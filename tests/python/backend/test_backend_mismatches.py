"""Ranks that call different things: each gets an error, on every transport; no data is changed."""

import os

import pytest
import torch
import torch.distributed as dist
from backend_ranks import BACKEND, init, new_group_everywhere, run_ranks
from ringwood_command import absent_here, transports

pytestmark = pytest.mark.skipif(BACKEND != "ringwood", reason="gloo returns what has come")
Op = dist.ReduceOp


class Call:
    """One rank's side of a case. `odd`: this is the rank that calls something else."""

    def __init__(self, rank: int, size: int, count: int, group) -> None:
        self.rank, self.size, self.count, self.group = rank, size, count, group
        self.odd = rank == size - 1
        self.buffers: list[tuple[torch.Tensor, torch.Tensor]] = []

    def buffer(self, count: int | None = None, dtype=torch.float32) -> torch.Tensor:
        count = self.count if count is None else count
        tensor = (torch.arange(count) % 7 - 3 + self.rank).to(dtype)
        self.buffers.append((tensor, tensor.clone()))
        return tensor

    def list_of(self, counts: list[int]) -> list[torch.Tensor]:
        return [self.buffer(count) for count in counts]

    def unchanged(self) -> bool:
        return all(now.equal(before) for now, before in self.buffers)


def dtype_of_all_reduce(c: Call) -> None:
    dist.all_reduce(c.buffer(dtype=torch.int32 if c.odd else torch.float32), group=c.group)


def dtype_of_broadcast(c: Call) -> None:
    dist.broadcast(c.buffer(dtype=torch.int32 if c.odd else torch.float32), 0, group=c.group)


def dtype_of_all_gather(c: Call) -> None:
    dtype = torch.int32 if c.odd else torch.float32
    out = c.buffer(c.count * c.size, dtype)
    dist.all_gather_into_tensor(out, c.buffer(dtype=dtype), group=c.group)


def redop_of_all_reduce(c: Call) -> None:
    dist.all_reduce(c.buffer(), Op.MAX if c.odd else Op.SUM, group=c.group)


def redop_of_reduce_scatter(c: Call) -> None:
    whole, op = c.buffer(c.count * c.size), Op.MIN if c.odd else Op.AVG
    dist.reduce_scatter_tensor(c.buffer(), whole, op, group=c.group)


def root_of_broadcast(c: Call) -> None:
    dist.broadcast(c.buffer(), 1 if c.odd else 0, group=c.group)


def root_of_reduce(c: Call) -> None:
    dist.reduce(c.buffer(), 1 if c.odd else 0, group=c.group)


def root_of_gather(c: Call) -> None:
    root = 1 if c.odd else 0
    out = c.list_of([c.count] * c.size) if c.rank == root else None
    dist.gather(c.buffer(), out, dst=root, group=c.group)


def root_of_scatter(c: Call) -> None:
    root = 1 if c.odd else 0
    parts = c.list_of([c.count] * c.size) if c.rank == root else None
    dist.scatter(c.buffer(), parts, src=root, group=c.group)


def size_of_all_reduce(c: Call) -> None:
    dist.all_reduce(c.buffer(c.count + c.odd), group=c.group)


def size_of_broadcast(c: Call) -> None:
    dist.broadcast(c.buffer(c.count + c.odd), 0, group=c.group)


def size_of_reduce(c: Call) -> None:
    dist.reduce(c.buffer(c.count + c.odd), 0, group=c.group)


def size_of_all_gather(c: Call) -> None:
    mine = c.count + c.odd
    dist.all_gather_into_tensor(c.buffer(mine * c.size), c.buffer(mine), group=c.group)


def size_of_one_block_of_all_gather(c: Call) -> None:
    counts = [c.count] * c.size
    counts[0] += c.odd  # what the first rank is said to have
    dist.all_gather(c.list_of(counts), c.buffer(), group=c.group)


def size_of_reduce_scatter(c: Call) -> None:
    mine = c.count + c.odd
    dist.reduce_scatter_tensor(c.buffer(mine), c.buffer(mine * c.size), group=c.group)


def size_of_gather(c: Call) -> None:
    out = c.list_of([c.count] * c.size) if c.rank == 0 else None
    dist.gather(c.buffer(c.count + c.odd), out, dst=0, group=c.group)


def size_of_scatter(c: Call) -> None:
    parts = c.list_of([c.count] * c.size) if c.rank == 0 else None
    dist.scatter(c.buffer(c.count + c.odd), parts, src=0, group=c.group)


def collective(c: Call) -> None:
    if c.odd:
        dist.barrier(c.group)
    else:
        dist.all_reduce(c.buffer(), group=c.group)


def order(c: Call) -> None:
    calls = [
        lambda: dist.all_reduce(c.buffer(), group=c.group),
        lambda: dist.broadcast(c.buffer(), 0, group=c.group),
    ]
    for call in reversed(calls) if c.odd else calls:
        call()


def receive_size_of_all_to_all(c: Call) -> None:
    expected = [c.count] * c.size
    expected[0] += c.odd
    dist.all_to_all(c.list_of(expected), c.list_of([c.count] * c.size), group=c.group)


def smaller_receive_size_of_all_to_all(c: Call) -> None:
    expected = [c.count] * c.size
    expected[0] -= c.odd
    dist.all_to_all(c.list_of(expected), c.list_of([c.count] * c.size), group=c.group)


def send_size_of_all_to_all(c: Call) -> None:
    sent = [c.count] * c.size
    sent[0] += c.odd
    dist.all_to_all(c.list_of([c.count] * c.size), c.list_of(sent), group=c.group)


def size_of_even_all_to_all(c: Call) -> None:
    whole = (c.count + c.odd) * c.size
    dist.all_to_all_single(c.buffer(whole), c.buffer(whole), group=c.group)


def splits(c: Call) -> None:
    """The sum is right on every rank; what one expects of two others is not."""
    expected = [c.count] * c.size
    expected[0] += c.odd
    expected[1] -= c.odd
    if c.size == 2 and c.odd:  # the second is the rank itself, which is checked before
        expected = [c.count + 1, c.count]
    out = c.buffer(sum(expected))
    sent = [c.count] * c.size
    dist.all_to_all_single(out, c.buffer(sum(sent)), expected, sent, group=c.group)


CASES = [
    *(dtype_of_all_reduce, dtype_of_broadcast, dtype_of_all_gather),
    *(redop_of_all_reduce, redop_of_reduce_scatter),
    *(root_of_broadcast, root_of_reduce, root_of_gather, root_of_scatter),
    *(size_of_all_reduce, size_of_broadcast, size_of_reduce, size_of_all_gather),
    *(size_of_one_block_of_all_gather, size_of_reduce_scatter, size_of_gather, size_of_scatter),
    *(receive_size_of_all_to_all, smaller_receive_size_of_all_to_all, send_size_of_all_to_all),
    *(size_of_even_all_to_all, splits, collective, order),
]
COUNTS = [4, 3000, 300_000]  # eager, in pieces, and beyond what is in flight


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("transport", transports())
def test_mismatch(transport, size, case):
    if why := absent_here(transport):
        pytest.skip(why)

    def body(rank, size):
        os.environ["RINGWOOD_TRANSPORTS"] = transport
        init(rank, size, int(os.environ["MASTER_PORT"]))
        for count in COUNTS:
            group = new_group_everywhere()  # an error ends it
            call = Call(rank, size, count, group)
            with pytest.raises(dist.DistBackendError, match="mismatch"):
                case(call)
            assert call.unchanged(), f"{count} elements: data was touched"
            dist.barrier()  # of the default group, which lives on

    run_ranks(size, body, group=False)

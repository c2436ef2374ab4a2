"""Asynchronous calls that touch the same memory take effect in the order in which they are made,
also where they go through copies: strided, overlapping, conjugated and sparse tensors."""

import os
import random
from dataclasses import dataclass

import pytest
import torch
import torch.distributed as dist
from backend_ranks import BACKEND, run_ranks

pytestmark = pytest.mark.skipif(BACKEND != "ringwood", reason="gloo keeps no order")
# By hand: 10,000.
PROGRAMS = int(os.environ.get("ORDER_PROGRAMS", "120"))
CALLS = 10
WORDS = 96


def wait_all(works: list) -> None:
    for work in works:
        work.wait()


def channels_last(base: torch.Tensor) -> torch.Tensor:
    """24 words as one picture of 2 channels."""
    return base.as_strided((1, 2, 3, 4), (24, 1, 8, 2), base.storage_offset())


def four_sums_channels_last(rank: int, size: int):
    x = torch.ones(1, 2, 3, 4).to(memory_format=torch.channels_last)
    wait_all([dist.all_reduce(x, async_op=True) for _ in range(4)])
    return x.unique().tolist()


def sum_then_exchange_in_place(rank: int, size: int):
    x = torch.full((4096,), float(rank + 1))
    wait_all([dist.all_reduce(x, async_op=True), dist.all_to_all_single(x, x, async_op=True)])
    return x.unique().tolist()


def conjugated(rank: int, size: int):
    x = torch.full((6,), 1 + 1j)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    wait_all([backend.allreduce([y]) for y in (x, x.conj(), x, x.conj())])
    return list({*x.tolist()})


def gathered_into_columns(rank: int, size: int):
    x = torch.full((3, 2), float(rank + 1))
    columns = [x[:, 0], x[:, 1]]
    works = [
        dist.all_gather(columns, torch.full((3,), rank + 5.0), async_op=True),
        dist.all_reduce(x, async_op=True),
        dist.all_gather(columns, torch.full((3,), rank + 7.0), async_op=True),
        dist.all_reduce(x, async_op=True),
    ]
    wait_all(works)
    return x.tolist()


def sparse_sums(rank: int, size: int):
    x = torch.tensor([0.0, rank + 1.0, 0.0, 5.0]).to_sparse().coalesce()
    works = [
        dist.all_reduce(x.values(), async_op=True),
        dist.all_reduce(x, async_op=True),
        dist.all_reduce(x, async_op=True),
    ]
    wait_all(works)
    return x.to_dense().tolist()


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (four_sums_channels_last, [16.0]),
        (sum_then_exchange_in_place, [3.0]),
        (conjugated, [16 + 16j]),
        (gathered_into_columns, [[14.0, 16.0]] * 3),
        (sparse_sums, [0.0, 12.0, 0.0, 40.0]),
    ],
)
def test_calls_through_copies_take_effect_in_order(body, want):
    assert run_ranks(2, body) == [want, want]


@dataclass
class Call:
    """One call of all ranks: where each rank's tensors begin in its memory."""

    kind: str
    at: list[int]
    other: list[int]
    count: int
    root: int

    def tensor(self, memory: torch.Tensor, rank: int) -> torch.Tensor:
        at, count = self.at[rank], self.count
        if "picture" in self.kind:
            return channels_last(memory[at : at + 24])
        return memory[at : at + 2 * count : 2] if "gaps" in self.kind else memory[at : at + count]

    def begin(self, memory: torch.Tensor, rank: int):
        at, other, count = self.at[rank], self.other[rank], self.count
        size = len(self.at)
        whole = self.tensor(memory, rank)
        match self.kind:
            case "sum" | "sum of pictures" | "sum with gaps":
                return dist.all_reduce(whole, async_op=True)
            case "picture" | "broadcast with gaps":
                return dist.broadcast(whole, self.root, async_op=True)
            case "gather":
                block = memory[other : other + size * count].view(count, size)
                columns = [block[:, r] for r in range(size)]
                return dist.all_gather(columns, whole, async_op=True)
            case "exchange":
                blocks = memory[at : at + size * count]
                return dist.all_to_all_single(blocks, blocks, async_op=True)
        inputs = list(memory[at : at + size * count].chunk(size))
        output = memory[other : other + count]
        return dist.reduce_scatter(output, inputs, async_op=True)

    def apply(self, memories: list[torch.Tensor]) -> None:
        size = len(self.at)
        count = 24 if "picture" in self.kind else self.count
        every = (2 * count, 2) if "gaps" in self.kind else (count,)

        def words(starts: list[int], many: int, step: int = 1) -> list[torch.Tensor]:
            return [m[s : s + many : step] for m, s in zip(memories, starts, strict=True)]

        match self.kind:
            case "sum" | "sum of pictures" | "sum with gaps":
                tensors = words(self.at, *every)
                total = torch.stack(tensors).sum(0)
                for x in tensors:
                    x.copy_(total)
            case "picture" | "broadcast with gaps":
                tensors = words(self.at, *every)
                given = tensors[self.root].clone()
                for x in tensors:
                    x.copy_(given)
            case "gather":
                columns = torch.stack(words(self.at, count), 1).flatten()
                for x in words(self.other, size * count):
                    x.copy_(columns)
            case "exchange":
                before = [x.clone().chunk(size) for x in words(self.at, size * count)]
                for r, x in enumerate(words(self.at, size * count)):
                    x.copy_(torch.cat([blocks[r] for blocks in before]))
            case _:
                sums = torch.stack(words(self.at, size * count)).sum(0).chunk(size)
                for x, own in zip(words(self.other, count), sums, strict=True):
                    x.copy_(own)


KINDS = ["sum", "sum of pictures", "picture", "gather", "exchange", "scatter"]
KINDS += ["sum with gaps", "broadcast with gaps"]


def random_call(source: random.Random, size: int) -> Call:
    kind = source.choice(KINDS)
    count = source.randint(1, WORDS // size // 2)
    longest = max(24, size * count)

    def starts() -> list[int]:
        return [source.randint(0, WORDS - longest) for _ in range(size)]

    return Call(kind, starts(), starts(), count, source.randrange(size))


def programs_run(rank: int, size: int) -> int:
    """The first program whose result is wrong, or -1."""
    for number in range(PROGRAMS):
        source = random.Random(number)
        memories = [
            torch.tensor([source.randint(-9, 9) for _ in range(WORDS)]) for _ in range(size)
        ]
        mine = memories[rank].clone()
        calls = [random_call(source, size) for _ in range(CALLS)]
        wait_all([call.begin(mine, rank) for call in calls])
        for call in calls:
            call.apply(memories)
        if not torch.equal(mine, memories[rank]):
            return number
    return -1


@pytest.mark.parametrize("transports", ["shm", "tcp"])
@pytest.mark.parametrize("size", [2, 3])
def test_random_programs_are_as_one_call_after_the_other(monkeypatch, transports, size):
    monkeypatch.setenv("RINGWOOD_TRANSPORTS", transports)
    assert run_ranks(size, programs_run) == [-1] * size

"""Tensors of any layout: every call gives what gloo gives for contiguous ones of the same values,
and what lies between their elements stays as it was."""

import os
import random
from dataclasses import dataclass

import pytest
import torch
import torch.distributed as dist
from backend_ranks import BACKEND, run_ranks

pytestmark = pytest.mark.skipif(BACKEND != "ringwood", reason="compares with gloo")
# By hand: 10,000.
CALLS = int(os.environ.get("LAYOUT_CALLS", "200"))
TYPES = [torch.float32, torch.int64, torch.float64, torch.int8]
Shape = tuple[int, ...]


def plain(source: random.Random, shape: Shape) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.int8)


def with_offset(source: random.Random, shape: Shape) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return torch.empty(count + 7, dtype=torch.int8)[3 : 3 + count].view(shape)


def permuted(source: random.Random, shape: Shape) -> torch.Tensor:
    """Transposed, channels_last, and so on."""
    order = source.sample(range(len(shape)), len(shape))
    places = [order.index(d) for d in range(len(shape))]
    return torch.empty([shape[d] for d in order], dtype=torch.int8).permute(places)


def channels_last(source: random.Random, shape: Shape) -> torch.Tensor:
    if len(shape) != 4:
        return permuted(source, shape)
    return torch.empty(shape, dtype=torch.int8).to(memory_format=torch.channels_last)


def random_steps(source: random.Random, shape: Shape) -> list[tuple[int, int, int]]:
    return [(source.randint(0, 2), source.randint(1, 3), n) for n in shape]


def with_gaps(source: random.Random, shape: Shape) -> torch.Tensor:
    inside = [slice(s, s + n * step, step) for s, step, n in random_steps(source, shape)]
    around = tuple(part.stop for part in inside)
    return permuted(source, around)[tuple(inside)]


def expanded(source: random.Random, shape: Shape) -> torch.Tensor:
    sizes = [source.choice([1, n]) for n in shape]
    return torch.empty(sizes, dtype=torch.int8).expand(shape)


WRITABLE = [plain, with_offset, permuted, channels_last, with_gaps]
READABLE = [*WRITABLE, expanded]


@dataclass
class Placed:
    """A tensor, and all of the memory that it lies in."""

    memory: torch.Tensor
    like: torch.Tensor

    def of(self, memory: torch.Tensor) -> torch.Tensor:
        return memory.as_strided(self.like.size(), self.like.stride(), self.like.storage_offset())

    def tensor(self) -> torch.Tensor:
        return self.of(self.memory)

    def contiguous(self) -> torch.Tensor:
        return self.tensor().clone(memory_format=torch.contiguous_format)


def placed(source: random.Random, layouts: list, shape: Shape, dtype: torch.dtype) -> Placed:
    like = source.choice(layouts)(source, shape)
    generator = torch.Generator().manual_seed(source.randrange(1 << 30))
    words = like.untyped_storage().nbytes()
    return Placed(torch.randint(-9, 10, (words,), generator=generator).to(dtype), like)


@dataclass
class Call:
    """One rank's part of a call. What is changed in place is among `writes`, but on ranks where it
    stays among `reads`."""

    group: dist.ProcessGroup
    reads: list
    writes: list
    root: int
    async_op: bool

    @property
    def how(self) -> dict:
        return {"group": self.group, "async_op": self.async_op}

    def in_place(self) -> torch.Tensor:
        return [*self.reads, *self.writes][0]

    def single(self, call):
        return call(self.writes[0], self.reads[0], **self.how)

    def messages(self) -> list:
        rank, size = dist.get_rank(), dist.get_world_size()
        return [
            dist.isend(self.reads[0], (rank + 1) % size, group=self.group),
            dist.irecv(self.writes[0], (rank - 1) % size, group=self.group),
        ]

    def backend(self):
        return self.group._get_backend(torch.device("cpu"))


# Tensors of a side: a block; one of all ranks' blocks; a list of their blocks.
B, W, E = ["block"], ["whole"], ["every"]
# What a rank reads, what it writes (of calls with a root: there, then elsewhere), and the call.
NAMES = {
    "all_reduce": (([], B), lambda c: dist.all_reduce(c.writes[0], **c.how)),
    "all_reduce_coalesced": (([], B + W + B), lambda c: c.backend().allreduce_coalesced(c.writes)),
    "all_gather": ((B, E), lambda c: dist.all_gather(c.writes, c.reads[0], **c.how)),
    "all_gather_single": ((B, W), lambda c: c.single(dist.all_gather_into_tensor)),
    "all_gather_into_tensor_coalesced": (
        (B + B, W + W),
        lambda c: c.group.allgather_into_tensor_coalesced(c.writes, c.reads),
    ),
    "reduce_scatter": ((E, B), lambda c: dist.reduce_scatter(c.writes[0], c.reads, **c.how)),
    "reduce_scatter_single": ((W, B), lambda c: c.single(dist.reduce_scatter_tensor)),
    "reduce_scatter_tensor_coalesced": (
        (W + W, B + B),
        lambda c: c.group.reduce_scatter_tensor_coalesced(c.writes, c.reads),
    ),
    "all_to_all": ((E, E), lambda c: dist.all_to_all(c.writes, c.reads, **c.how)),
    "all_to_all_single": ((W, W), lambda c: c.single(dist.all_to_all_single)),
    "messages": ((B, B), Call.messages),
    "broadcast": ((B, [], [], B), lambda c: dist.broadcast(c.in_place(), c.root, **c.how)),
    "reduce": (([], B, B, []), lambda c: dist.reduce(c.in_place(), c.root, **c.how)),
    "gather": (
        (B, E, B, []),
        lambda c: dist.gather(c.reads[0], c.writes or None, dst=c.root, **c.how),
    ),
    "scatter": (
        (E, B, [], B),
        lambda c: dist.scatter(c.writes[0], c.reads or None, src=c.root, **c.how),
    ),
}


def shapes(side: list, shape: Shape, size: int) -> list[Shape]:
    whole = (size * shape[0], *shape[1:])
    of = {"block": [shape], "whole": [whole], "every": [shape] * size}
    return [one for tensor in side for one in of[tensor]]


def carry_out(name: str, call: Call) -> None:
    works = NAMES[name][1](call)
    for work in works if isinstance(works, list) else [works]:
        if work is not None:
            work.wait()


def random_shape(source: random.Random) -> Shape:
    if source.random() < 0.1:  # beyond what goes in one piece
        return (source.randint(50, 90), source.randint(500, 900))
    return tuple(source.randint(1, 5) for _ in range(source.randint(1, 4)))


def wrong_call(rank: int, size: int) -> str:
    """The first call with a wrong result, in words, or nothing."""
    gloo = dist.new_group(backend="gloo")
    for number in range(CALLS):
        alike, own = random.Random(number), random.Random(number * 64 + rank + 1)
        name, dtype = alike.choice(list(NAMES)), alike.choice(TYPES)
        shape, root, async_op = random_shape(alike), alike.randrange(size), alike.random() < 0.5
        sides = NAMES[name][0]
        read, written = sides[:2] if rank == root else sides[-2:]
        reads = [placed(own, READABLE, one, dtype) for one in shapes(read, shape, size)]
        writes = [placed(own, WRITABLE, one, dtype) for one in shapes(written, shape, size)]

        expected = [one.memory.clone() for one in [*reads, *writes]]
        inputs, results = [[one.contiguous() for one in side] for side in (reads, writes)]
        carry_out(name, Call(gloo, inputs, results, root, False))
        for one, memory, result in zip(writes, expected[len(reads) :], results, strict=True):
            one.of(memory).copy_(result)

        inputs, outputs = [[one.tensor() for one in side] for side in (reads, writes)]
        carry_out(name, Call(dist.group.WORLD, inputs, outputs, root, async_op))
        for one, memory in zip([*reads, *writes], expected, strict=True):
            if not one.memory.equal(memory):
                return (
                    f"{name} #{number} of {dtype}, {shape} with strides {one.like.stride()} "
                    f"from {one.like.storage_offset()}: {one.memory} instead of {memory}"
                )
    return ""


@pytest.mark.parametrize("transports", ["shm", "tcp"])
@pytest.mark.parametrize("size", [2, 3])
def test_random_calls_are_as_with_gloo(monkeypatch, transports, size):
    monkeypatch.setenv("RINGWOOD_TRANSPORTS", transports)
    assert run_ranks(size, wrong_call) == [""] * size

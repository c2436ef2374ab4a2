"""Every collective on a device gives what it gives on the CPU."""

import os
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from ghost_ranks import init, load_ghost, needs_ghost, run_ghosts, run_ranks

pytestmark = needs_ghost


def filled(count: int, rank: int, dtype=torch.float32) -> torch.Tensor:
    """Small whole numbers: sums of them are exact in any order."""
    return ((torch.arange(count) * (rank + 3)) % 17 + rank).to(dtype)


def all_reduces(rank, size, device):
    for count in (1, 1000, 5000, 30000, 3_000_000):  # each way that is chosen by size
        x = filled(count, rank).to(device)
        dist.all_reduce(x)
        yield x
    for op in (dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.AVG, dist.ReduceOp.PRODUCT):
        x = filled(501, rank, torch.float64).to(device)
        dist.all_reduce(x, op)
        yield x
    for dtype in (torch.bfloat16, torch.int64, torch.uint8):
        x = filled(77, rank, dtype).to(device)
        dist.all_reduce(x, async_op=True).wait()
        yield x
    x = filled(24, rank).view(2, 3, 2, 2).to(device, memory_format=torch.channels_last)
    dist.all_reduce(x)
    yield x
    parts = [filled(count, rank).to(device) for count in (3, 100, 1)]
    dist.all_reduce_coalesced(parts)
    yield from parts


def rooted(rank, size, device):
    for root in range(size):
        x = filled(1000, rank).to(device)
        dist.broadcast(x, root)
        yield x
        x = filled(70_000, rank).to(device)
        dist.reduce(x, root)
        if rank == root:
            yield x
        x = filled(6, rank).view(2, 3).to(device)
        parts = [torch.empty_like(x) for _ in range(size)] if rank == root else None
        dist.gather(x, parts, root)
        yield from parts or []
        parts = [filled(6, rank + i).view(2, 3).to(device) for i in range(size)]
        dist.scatter(x, parts if rank == root else None, root)
        yield x


def gathers(rank, size, device):
    x = filled(1000, rank).to(device)
    parts = [torch.empty_like(x) for _ in range(size)]
    dist.all_gather(parts, x)
    yield from parts
    parts = [torch.empty(10, 2, device=device).t() for _ in range(size)]
    dist.all_gather(parts, filled(20, rank).view(2, 10).to(device), async_op=True).wait()
    yield from parts
    whole = torch.empty(size * 1000, device=device)
    dist.all_gather_into_tensor(whole, x)
    yield whole
    dist.all_gather_into_tensor(whole, whole[rank * 1000 : (rank + 1) * 1000])
    yield whole
    gathered = [None] * size
    dist.all_gather_object(gathered, {"rank": rank})
    assert gathered == [{"rank": i} for i in range(size)]


def scatters_and_exchanges(rank, size, device):
    parts = [filled(500, rank + i).to(device) for i in range(size)]
    x = torch.empty(500, device=device)
    dist.reduce_scatter(x, parts)
    yield x
    dist.reduce_scatter_tensor(x, torch.cat(parts), dist.ReduceOp.AVG, async_op=True).wait()
    yield x
    whole = torch.empty(size * 500, device=device)
    dist.all_to_all_single(whole, torch.cat(parts))
    yield whole
    dist.all_to_all_single(whole, torch.cat(parts), [500] * size, [500] * size)
    yield whole
    if device.type != "cpu" or size > 1:
        outputs = [torch.empty_like(x) for _ in range(size)]
        dist.all_to_all(outputs, parts)
        yield from outputs
    empty = torch.empty(0, device=device)
    dist.all_reduce(empty)
    yield empty


def same_on_both(calls):
    def body(rank, size, device, ghost):
        here = list(calls(rank, size, torch.device("cpu")))
        there = list(calls(rank, size, device))
        assert len(here) == len(there)
        for number, (a, b) in enumerate(zip(here, there, strict=True)):
            assert b.device == device
            assert torch.equal(a, b.cpu()), (rank, number, a, b.cpu())
        dist.barrier()

    return body


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("calls", [all_reduces, rooted, gathers, scatters_and_exchanges])
def test_as_on_the_cpu(calls, size):
    run_ghosts(size, same_on_both(calls))


def expect_sums_on_both(size, device):
    for here in (device, torch.device("cpu")):
        x = torch.ones(3, device=here)
        dist.all_reduce(x)
        assert x.sum().item() == 3 * size
    dist.barrier()


def test_one_backend_for_all_devices():
    def body(rank, size, device, ghost):
        expect_sums_on_both(size, device)
        assert dist.get_backend_config() == "cpu:ringwood,cuda:ringwood,ghost:ringwood"

    run_ghosts(2, body, backend="ringwood")


def test_a_program_that_never_says_which_device_it_uses():
    """torch's current one stays 0; tensors are where they are, and more than one is used."""

    def body(rank, size):
        load_ghost(4)
        from ringwood import _autoload

        _autoload.DEVICES.append("ghost")
        init(rank, size, int(os.environ["MASTER_PORT"]))
        for shared in (False, True):  # a device for each rank, then one for both
            for i in (1, 2, 1):
                device = torch.device("ghost", i if shared else (i + rank) % 4)
                x = torch.full((1000,), rank + 1.0, device=device)
                dist.all_reduce(x, async_op=True).wait()
                strided = torch.ones(10, 2, device=device)[:, 0]
                dist.all_reduce(strided)
                assert (x.cpu()[0], strided.cpu()[3]) == (3, 2)
        assert torch.accelerator.current_device_index() == 0

    run_ranks(2, body, group=False)


def test_groups_of_some_ranks():
    def body(rank, size, device, ghost):
        groups = [dist.new_group([0, 1]), dist.new_group([1, 2])]
        for _ in range(2):
            for ranks, group in zip(([0, 1], [1, 2]), groups, strict=True):
                if rank in ranks:
                    x = torch.full((10,), float(rank), device=device)
                    dist.all_reduce(x, group=group)
                    assert x[0].item() == sum(ranks)

    run_ghosts(3, body)


def test_a_job_on_the_cpu_opens_no_driver():
    def body(rank, size):
        before = [line for line in Path("/proc/self/maps").read_text().split() if "cuda" in line]
        dist.all_reduce(torch.ones(4))
        dist.barrier()
        dist.all_gather_object([None] * size, rank)
        after = [line for line in Path("/proc/self/maps").read_text().split() if "cuda" in line]
        assert after == before

    run_ranks(2, body)


def test_beside_gloo_on_the_cpu():
    def body(rank, size, device, ghost):
        expect_sums_on_both(size, device)
        backends = [dist.group.WORLD._get_backend(torch.device(d)).name() for d in ("cpu", device)]
        assert backends == ["gloo", "ringwood"]

    run_ghosts(2, body, backend="cpu:gloo,ghost:ringwood")

"""What trains on a device: data parallel with small buckets, and sharded, against one process."""

import copy

import pytest
import torch
from ghost_ranks import needs_ghost, run_ghosts
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

pytestmark = needs_ghost

STEPS, BATCH = 5, 6  # of a rank


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 30), nn.Linear(30, 5))


def train(module: nn.Module, part: slice, size: int, device) -> None:
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        inputs = torch.randn(BATCH * size, 20, generator=generator)
        targets = torch.randn(BATCH * size, 5, generator=generator)
        optimizer.zero_grad()
        loss = (module(inputs[part].to(device)) - targets[part].to(device)).pow(2).mean()
        loss.backward()
        optimizer.step()


def expect_as_alone(parameters, alone: nn.Module) -> None:
    for got, expected in zip(parameters, alone.parameters(), strict=True):
        torch.testing.assert_close(got, expected.detach(), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("size", [2, 3])
def test_data_parallel(size):
    def body(rank, size, device, ghost):
        alone = model()
        parallel = DistributedDataParallel(copy.deepcopy(alone).to(device), bucket_cap_mb=0.001)
        train(parallel, slice(BATCH * rank, BATCH * (rank + 1)), size, device)
        train(alone, slice(None), size, "cpu")
        expect_as_alone([p.detach().cpu() for p in parallel.parameters()], alone)

    run_ghosts(size, body)


def test_fully_sharded():
    def body(rank, size, device, ghost):
        alone = model()
        sharded = copy.deepcopy(alone).to(device)
        mesh = init_device_mesh("ghost", (size,))
        for layer in (sharded[0], sharded[2], sharded):
            fully_shard(layer, mesh=mesh)
        train(sharded, slice(BATCH * rank, BATCH * (rank + 1)), size, device)
        train(alone, slice(None), size, "cpu")
        expect_as_alone([p.full_tensor().detach().cpu() for p in sharded.parameters()], alone)

    run_ghosts(2, body)

"""What trains on a device: data parallel with small buckets, and sharded, against one process."""

import copy

import pytest
import torch
import torch.distributed.checkpoint as dcp
from ghost_ranks import needs_ghost, run_ghosts
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
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


def test_hooks_of_data_parallel_run_behind_the_sum():
    """The Future's callbacks, which take what has come."""

    def body(rank, size, device, ghost):
        alone = model()
        parallel = DistributedDataParallel(copy.deepcopy(alone).to(device), bucket_cap_mb=0.001)
        parallel.register_comm_hook(None, default_hooks.allreduce_hook)
        train(parallel, slice(BATCH * rank, BATCH * (rank + 1)), size, device)
        train(alone, slice(None), size, "cpu")
        expect_as_alone([p.detach().cpu() for p in parallel.parameters()], alone)

    run_ghosts(2, body)


def test_sharded_tensors():
    def body(rank, size, device, ghost):
        mesh = init_device_mesh("ghost", (size,))
        whole = torch.arange(24.0).view(4, 6)
        rows = distribute_tensor(whole.to(device), mesh, [Shard(0)])
        assert torch.equal(rows.redistribute(mesh, [Shard(1)]).full_tensor().cpu(), whole)
        columns = distribute_tensor(whole.t().contiguous().to(device), mesh, [Shard(1)])
        product = (rows @ columns.redistribute(mesh, [Replicate()])).full_tensor()
        assert torch.equal(product.cpu(), whole @ whole.t())

    run_ghosts(2, body)


def test_a_pipeline():
    def body(rank, size, device, ghost):
        alone = model()
        stages = [alone[:2], alone[2:]]
        generator = torch.Generator().manual_seed(1)
        inputs = torch.randn(8, 20, generator=generator)
        targets = torch.randn(8, 5, generator=generator)
        part = copy.deepcopy(stages[rank]).to(device)
        stage = PipelineStage(part, rank, size, device)
        schedule = Schedule1F1B(stage, 4, loss_fn=nn.MSELoss())
        losses = []
        if rank == 0:
            schedule.step(inputs.to(device))
        else:
            schedule.step(target=targets.to(device), losses=losses)
        for these, those in zip(inputs.chunk(4), targets.chunk(4), strict=True):
            (nn.functional.mse_loss(alone(these), those) / 4).backward()
        for got, expected in zip(part.parameters(), stages[rank].parameters(), strict=True):
            torch.testing.assert_close(got.grad.cpu(), expected.grad, atol=1e-6, rtol=1e-5)

    run_ghosts(2, body)


def test_a_checkpoint_that_is_saved_meanwhile(tmp_path):
    def body(rank, size, device, ghost):
        parallel = DistributedDataParallel(model().to(device))
        state = parallel.module.state_dict()
        dcp.async_save(state, checkpoint_id=tmp_path / "saved").result()
        expected = {name: tensor.cpu().clone() for name, tensor in state.items()}
        for tensor in state.values():
            tensor.zero_()
        dcp.load(state, checkpoint_id=tmp_path / "saved")
        for name, tensor in state.items():
            assert torch.equal(tensor.cpu(), expected[name])

    run_ghosts(2, body)

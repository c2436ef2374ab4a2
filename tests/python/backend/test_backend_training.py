"""What trains over the backend: data parallel with its hooks, sharded, tensor parallel."""

import copy
import warnings

import pytest
import torch
import torch.distributed as dist
from backend_ranks import DEVICE, normal, run_ranks
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

STEPS = 5
BATCH = 12  # of all ranks together


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 4))


def batches():
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        yield normal(generator, BATCH, 8), normal(generator, BATCH, 4)


def train(module: nn.Module, rank: int = 0, size: int = 1, rate: float = 0.1) -> nn.Module:
    optimizer = torch.optim.SGD(module.parameters(), rate)
    for inputs, targets in batches():
        mine = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
        optimizer.zero_grad()
        nn.functional.mse_loss(module(inputs[mine]), targets[mine]).backward()
        optimizer.step()
    return module


def expect_equal(trained: nn.Module, tolerance: float = 1e-6) -> None:
    """As one process would have trained it, and the same bits on all ranks."""
    alone = dict(train(model()).named_parameters())
    for name, parameter in trained.named_parameters():
        value = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter
        torch.testing.assert_close(value, alone[name], atol=tolerance, rtol=tolerance, msg=name)
        first = value.detach().clone()
        dist.broadcast(first, 0)
        assert torch.equal(first, value), name


@pytest.mark.parametrize(
    ("size", "hook", "tolerance"),
    [
        (2, None, 1e-6),
        (3, None, 1e-6),
        (2, default_hooks.allreduce_hook, 1e-6),
        (2, default_hooks.fp16_compress_hook, 1e-3),
    ],
)
def test_data_parallel(size, hook, tolerance):
    def body(rank, size):
        parallel = DistributedDataParallel(model(), bucket_cap_mb=0.001)
        if hook:
            parallel.register_comm_hook(None, hook)
        train(parallel, rank, size)
        expect_equal(parallel.module, tolerance)

    run_ranks(size, body)


def test_data_parallel_with_power_sgd():
    def body(rank, size):
        parallel = DistributedDataParallel(model())
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=2, start_powerSGD_iter=2
        )
        parallel.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        train(parallel, rank, size)
        for parameter in parallel.parameters():
            first = parameter.detach().clone()
            dist.broadcast(first, 0)
            assert torch.equal(first, parameter)

    run_ranks(2, body)


def test_hook_with_python_callbacks():
    def body(rank, size):
        seen = []

        def hook(_, bucket):
            summed = dist.all_reduce(bucket.buffer(), async_op=True).get_future()

            def average(future):
                seen.append(bucket.index())
                return future.value()[0].div_(size)

            return summed.then(average)

        parallel = DistributedDataParallel(model(), bucket_cap_mb=0.001)
        parallel.register_comm_hook(None, hook)
        train(parallel, rank, size)
        assert len(seen) >= STEPS
        expect_equal(parallel.module)

    run_ranks(2, body)


def test_data_parallel_with_sparse_gradients():
    def body(rank, size):
        torch.manual_seed(0)
        embedding = nn.EmbeddingBag(20, 3, sparse=True)
        alone = copy.deepcopy(embedding)
        parallel = DistributedDataParallel(embedding)
        words = torch.tensor([[1, 2], [2, 5], [7, 1], [0, 0]])
        parallel(words[rank::size]).sum().backward()
        alone(words).sum().backward()
        expected = alone.weight.grad.to_dense() / size
        torch.testing.assert_close(embedding.weight.grad.to_dense(), expected)

    run_ranks(2, body)


def test_uneven_inputs():
    """A rank that has run out of inputs adds nothing; the sum is still divided by all ranks."""

    def inputs(rank: int, step: int) -> torch.Tensor:
        return torch.full((3, 8), 0.1 * (rank + 1) * (step + 1))

    def body(rank, size):
        module = model()
        parallel = DistributedDataParallel(module)
        optimizer = torch.optim.SGD(parallel.parameters(), 0.1)
        with parallel.join():
            for step in range(2 + rank):
                optimizer.zero_grad()
                parallel(inputs(rank, step)).sum().backward()
                optimizer.step()

        alone = model()
        optimizer = torch.optim.SGD(alone.parameters(), 0.1)
        for step in range(2 + size - 1):
            optimizer.zero_grad()
            for with_inputs in range(size):
                if step < 2 + with_inputs:
                    (alone(inputs(with_inputs, step)).sum() / size).backward()
            optimizer.step()
        for mine, expected in zip(module.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(mine, expected)

    run_ranks(3, body)


@pytest.mark.parametrize(
    ("size", "dtype"), [(2, None), (3, None), (2, torch.bfloat16), (2, torch.float16)]
)
def test_fully_sharded(size, dtype):
    def body(rank, size):
        mesh = init_device_mesh(DEVICE, (size,))
        policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=dtype)
        module = model()
        for layer in module:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(module, mesh=mesh, mp_policy=policy)
        train(module, rank, size)
        expect_equal(module, 1e-6 if dtype is None else 2e-2)

    run_ranks(size, body)


def test_fully_sharded_in_replicas():
    def body(rank, size):
        mesh = init_device_mesh(DEVICE, (2, 2), mesh_dim_names=("replicate", "shard"))
        module = fully_shard(model(), mesh=mesh)
        train(module, rank, size)
        expect_equal(module)

    run_ranks(4, body)


def test_gradient_divided_by_a_factor():
    def body(rank, size):
        mesh = init_device_mesh(DEVICE, (size,))
        module = fully_shard(model(), mesh=mesh)
        module.set_gradient_divide_factor(2.0 * size)  # PREMUL_SUM
        train(module, rank, size, rate=0.2)
        expect_equal(module)

    run_ranks(2, body)


def test_tensor_parallel():
    def body(rank, size):
        mesh = init_device_mesh(DEVICE, (size,))
        plan = {"0": ColwiseParallel(), "3": RowwiseParallel()}
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Identity(), nn.Linear(32, 4))
        alone = train(copy.deepcopy(module))
        train(parallelize_module(module, mesh, plan))
        for name, parameter in module.named_parameters():
            whole = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter
            torch.testing.assert_close(whole, alone.get_parameter(name), atol=1e-6, rtol=1e-5)

    run_ranks(2, body)


def test_redistribution():
    def body(rank, size):
        mesh = init_device_mesh(DEVICE, (size,))
        whole = torch.arange(7 * 10.0).reshape(7, 10)
        placements = [Replicate(), Shard(0), Shard(1)]
        for before in placements:
            for after in placements:
                tensor = distribute_tensor(whole, mesh, [before]).redistribute(mesh, [after])
                assert torch.equal(tensor.full_tensor(), whole), (before, after)
                expected = distribute_tensor(whole, mesh, [after]).to_local()
                assert torch.equal(tensor.to_local(), expected), (before, after)

    run_ranks(3, body)


def test_objects():
    def body(rank, size):
        mine = {"rank": rank, "text": "x" * (rank * 1000)}
        everything = [None] * size
        dist.all_gather_object(everything, mine)
        assert [one["rank"] for one in everything] == list(range(size))
        gathered = [None] * size if rank == 1 else None
        dist.gather_object(mine, gathered, dst=1)
        assert rank != 1 or gathered == everything
        received = [None]
        dist.scatter_object_list(received, everything if rank == 0 else None, src=0)
        assert received == [mine]
        shared = [mine, None] if rank == 2 else [None, None]
        dist.broadcast_object_list(shared, src=2)
        assert shared == [everything[2], None]

    run_ranks(3, body)


def test_average_of_integers_as_lightning_asks_for():
    def body(rank, size):
        with torch.inference_mode():
            count = torch.tensor(rank * 2 + 1)
            dist.all_reduce(count, op=dist.ReduceOp.AVG)
            assert count.item() == 2
            dist.barrier()

    run_ranks(2, body)


def test_checkpoint(tmp_path):
    from torch.distributed import checkpoint

    def body(rank, size):
        mesh = init_device_mesh(DEVICE, (size,))
        saved = fully_shard(model(), mesh=mesh).state_dict()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            checkpoint.save(saved, checkpoint_id=str(tmp_path))
            loaded = fully_shard(model(), mesh=mesh).state_dict()
            for value in loaded.values():
                value.zero_()
            checkpoint.load(loaded, checkpoint_id=str(tmp_path))
        for name, value in saved.items():
            whole, again = (
                v.full_tensor() if isinstance(v, DTensor) else v for v in (value, loaded[name])
            )
            assert torch.equal(whole, again), name

    run_ranks(2, body)

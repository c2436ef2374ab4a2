"""Training steps of DistributedDataParallel on the CPU, with and without communication.

A transformer encoder of 25.2 million float32 parameters; every rank has a core and one thread.
Steps with and without communication (no_sync) take turns; each step begins with a barrier outside
its time and counts with its slowest rank. Last, the gradients' bytes are all-reduced alone, in
buckets as large as DDP's. Prints one JSON object; bench/ddp runs it for gloo and for ringwood:

    python bench/torch_ddp.py --backend gloo --steps 5
"""

import argparse
import contextlib
import json
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch_ranks import fork_ranks

WARMUP = 2
WIDTH, LAYERS, SEQUENCES, TOKENS = 512, 8, 4, 16
BUCKET_BYTES = 25 << 20  # DDP's default


def make_model() -> nn.Module:
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0, batch_first=True)
    return nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)


class Training:
    def __init__(self, rank: int):
        self.model = DistributedDataParallel(make_model())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        generator = torch.Generator().manual_seed(rank)
        self.batch = torch.randn(SEQUENCES, TOKENS, WIDTH, generator=generator)

    def step_seconds(self, communicate: bool) -> float:
        dist.barrier()
        start = time.perf_counter()
        with contextlib.nullcontext() if communicate else self.model.no_sync():
            self.model(self.batch).square().mean().backward()
        if communicate:
            self.optimizer.step()
        else:
            self.same_work_as_step()
        self.optimizer.zero_grad()
        return time.perf_counter() - start

    @torch.no_grad()
    def same_work_as_step(self) -> None:
        """The optimizer's memory traffic, by which the ranks' parameters stay equal."""
        for parameter in self.model.parameters():
            parameter.add_(parameter.grad, alpha=0.0)

    def parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())

    def check(self) -> None:
        """A backend that leaves the ranks with different parameters is not a contestant."""
        sums = torch.stack([p.detach().double().sum() for p in self.model.parameters()])
        least, most = sums.clone(), sums.clone()
        dist.all_reduce(least, op=dist.ReduceOp.MIN)
        dist.all_reduce(most, op=dist.ReduceOp.MAX)
        if not torch.equal(least, most):
            sys.exit(f"{dist.get_backend()}: the ranks have different parameters")


def alone_seconds(buckets: list[torch.Tensor]) -> float:
    dist.barrier()
    start = time.perf_counter()
    for work in [dist.all_reduce(bucket, async_op=True) for bucket in buckets]:
        work.wait()
    return time.perf_counter() - start


def slowest(seconds: list[float]) -> list[float]:
    tensor = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return tensor.tolist()


def run_rank(rank: int, steps: int) -> None:
    training = Training(rank)
    times = {"step": [], "computation": [], "communication": []}
    for _ in range(WARMUP + steps):
        times["step"].append(training.step_seconds(communicate=True))
        times["computation"].append(training.step_seconds(communicate=False))
    training.check()
    buckets = list(torch.zeros(training.parameters()).split(BUCKET_BYTES // 4))
    times["communication"] = [alone_seconds(buckets) for _ in range(WARMUP + steps)]
    told = {name: slowest(seconds[WARMUP:]) for name, seconds in times.items()}
    if rank == 0:
        print(json.dumps({"parameters": training.parameters(), "seconds": told}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    return fork_ranks(args.backend, args.ranks, lambda rank: run_rank(rank, args.steps))


if __name__ == "__main__":
    sys.exit(main())

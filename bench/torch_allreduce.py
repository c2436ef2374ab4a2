"""dist.all_reduce of float32, in place, sum, through any backend of torch.distributed.

The rules of bench/batches.h, in Python: batches of about 2 ms, each taken from its slowest rank;
best and median of seven. Prints one JSON object per size. bench/peers runs it for gloo and for
ringwood, one after the other, so that both pay the same for Python and for c10d:

    python bench/torch_allreduce.py --backend gloo --ranks 2 --sizes 8,4096,1048576
    python bench/torch_allreduce.py --backend ringwood --memory shared
"""

import argparse
import json
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch_ranks import fork_ranks

BATCHES, WARMUP, MOST_ITERATIONS, BATCH_SECONDS = 7, 5, 20000, 2e-3


def slowest(times: list[float]) -> list[float]:
    tensor = torch.tensor(times, dtype=torch.float64)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return tensor.tolist()


def batch_seconds(tensor: torch.Tensor, iterations: int, touch: bool) -> float:
    if not touch:
        dist.barrier()
        start = time.perf_counter()
        for _ in range(iterations):
            dist.all_reduce(tensor)
        return time.perf_counter() - start
    total = 0.0
    lines = tensor[::16]  # an element of each cache line
    for _ in range(iterations):
        tensor.zero_()
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(tensor)
        lines.sum()
        total += time.perf_counter() - start
    return total


def measure(tensor: torch.Tensor, touch: bool) -> tuple[float, float]:
    """Best and median microseconds of one all_reduce."""
    tensor.zero_()
    for _ in range(WARMUP):
        dist.all_reduce(tensor)
    iterations = 1
    while True:
        seconds = slowest([batch_seconds(tensor, iterations, touch)])[0]
        if seconds > BATCH_SECONDS / 8 or iterations >= MOST_ITERATIONS:
            break
        iterations *= 2
    iterations = min(max(1, int(BATCH_SECONDS / seconds * iterations)), MOST_ITERATIONS)
    times = slowest([batch_seconds(tensor, iterations, touch) for _ in range(BATCHES)])
    return min(times) / iterations * 1e6, statistics.median(times) / iterations * 1e6


def check(rank: int, ranks: int, tensor: torch.Tensor) -> None:
    tensor.fill_(rank + 1)
    dist.all_reduce(tensor)
    if not bool((tensor == ranks * (ranks + 1) / 2).all()):
        sys.exit(f"rank {rank}: {dist.get_backend()} added wrongly")


def make_tensor(size: int, args: argparse.Namespace) -> torch.Tensor:
    count = max(1, size // 4)
    if args.memory == "private":
        return torch.empty(count)
    return __import__(args.backend).empty(count, dtype=torch.float32)


def run_rank(rank: int, args: argparse.Namespace) -> None:
    check(rank, args.ranks, make_tensor(max(args.sizes), args))
    for mode in args.modes:
        for size in args.sizes:
            best, median = measure(make_tensor(size, args), mode == "touched")
            if rank == 0:
                row = {"mode": mode, "bytes": size, "best_us": best, "median_us": median}
                print(json.dumps(row), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", type=lambda t: [int(s) for s in t.split(",")], default=[8, 4096])
    parser.add_argument("--modes", type=lambda t: t.split(","), default=["plain"])
    parser.add_argument("--memory", choices=["private", "shared"], default="private")
    parser.add_argument("--hosts", type=lambda t: t.split(","), help="network namespaces by rank")
    args = parser.parse_args()
    return fork_ranks(args.backend, args.ranks, lambda rank: run_rank(rank, args), args.hosts)


if __name__ == "__main__":
    sys.exit(main())

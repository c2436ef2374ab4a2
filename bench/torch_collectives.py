"""One collective of float32 through any backend of torch.distributed, but all_reduce.

The rules of torch_allreduce.py. Sizes are those of the whole buffer: for all but broadcast that of
one block for each rank. bench/collectives runs it for gloo and for ringwood:

    python bench/torch_collectives.py all_gather --backend gloo --sizes 262144,1048576
"""

import argparse
import json
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch_allreduce import BATCH_SECONDS, BATCHES, MOST_ITERATIONS, WARMUP, make_tensor, slowest
from torch_ranks import fork_ranks


class Operation:
    """Buffers of one size, and what is done with them again and again."""

    def __init__(self, name: str, size: int, args: argparse.Namespace):
        ranks = args.ranks
        self.rank, self.ranks, self.name = dist.get_rank(), ranks, name
        whole, block = size // 4 // ranks * ranks * 4, size // 4 // ranks * 4
        self.source = make_tensor(block if name == "all_gather" else whole, args)
        self.result = self.source
        if name != "broadcast":
            self.result = make_tensor(block if name == "reduce_scatter" else whole, args)
        self.run = {
            "all_gather": lambda: dist.all_gather_into_tensor(self.result, self.source),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(self.result, self.source),
            "broadcast": lambda: dist.broadcast(self.source, 0),
            "all_to_all": lambda: dist.all_to_all_single(self.result, self.source),
        }[name]

    def check(self) -> None:
        self.source.fill_(self.rank + 1)
        self.run()
        expected = {
            "reduce_scatter": torch.tensor([self.ranks * (self.ranks + 1) / 2]),
            "broadcast": torch.ones(1),
        }.get(self.name, torch.arange(1.0, self.ranks + 1))
        got = self.result.reshape(len(expected), -1)
        if not bool((got == expected.reshape(-1, 1)).all()):
            sys.exit(f"rank {self.rank}: {dist.get_backend()} gives wrong results")

    def batch_seconds(self, iterations: int, touch: bool) -> float:
        if not touch:
            dist.barrier()
            start = time.perf_counter()
            for _ in range(iterations):
                self.run()
            return time.perf_counter() - start
        total = 0.0
        lines = self.result[::16]  # an element of each cache line
        for _ in range(iterations):
            self.source.zero_()
            dist.barrier()
            start = time.perf_counter()
            self.run()
            lines.sum()
            total += time.perf_counter() - start
        return total

    def measure(self, touch: bool) -> tuple[float, float]:
        """Best and median microseconds."""
        self.source.zero_()
        for _ in range(WARMUP):
            self.run()
        iterations = 1
        while True:
            seconds = slowest([self.batch_seconds(iterations, touch)])[0]
            if seconds > BATCH_SECONDS / 8 or iterations >= MOST_ITERATIONS:
                break
            iterations *= 2
        iterations = min(max(1, int(BATCH_SECONDS / seconds * iterations)), MOST_ITERATIONS)
        times = slowest([self.batch_seconds(iterations, touch) for _ in range(BATCHES)])
        return min(times) / iterations * 1e6, statistics.median(times) / iterations * 1e6


def run_rank(rank: int, args: argparse.Namespace) -> None:
    Operation(args.collective, max(args.sizes), args).check()
    for mode in args.modes:
        for size in args.sizes:
            best, median = Operation(args.collective, size, args).measure(mode == "touched")
            if rank == 0:
                row = {"mode": mode, "bytes": size, "best_us": best, "median_us": median}
                print(json.dumps(row), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("collective")
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", type=lambda t: [int(s) for s in t.split(",")], default=[262144])
    parser.add_argument("--modes", type=lambda t: t.split(","), default=["plain"])
    parser.add_argument("--memory", choices=["private", "shared"], default="private")
    args = parser.parse_args()
    return fork_ranks(args.backend, args.ranks, lambda rank: run_rank(rank, args))


if __name__ == "__main__":
    sys.exit(main())

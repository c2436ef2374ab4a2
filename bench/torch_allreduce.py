"""All-reduce of float32, in place, sum, in torch: dist.all_reduce through any backend of
torch.distributed, or the op of one of torch_peers.py, called directly.

The rules of programs/batches.h, in Python: batches of about 2 ms, each from its slowest rank;
best and median of seven. Prints one JSON object per size. bench/peers runs it for each contestant,
one after the other, so that all pay the same for Python, and those with a backend for c10d:

    python bench/torch_allreduce.py --backend gloo --ranks 2 --sizes 8,4096,1048576
    python bench/torch_allreduce.py --backend ringwood --memory shared
    python bench/torch_allreduce.py --peer vllm --folder FOLDER/vllm
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch_peers import PEERS
from torch_ranks import fork_ranks

BATCHES, WARMUP, MOST_ITERATIONS, BATCH_SECONDS = 7, 5, 20000, 2e-3


@dataclass
class Contestant:
    """How tensors are added up, and how the ranks meet before a batch."""

    all_reduce: Callable[[torch.Tensor], object] = dist.all_reduce
    barrier: Callable[[], object] = dist.barrier


def of_peer(all_reduce: Callable[[torch.Tensor], object]) -> Contestant:
    # No rank has the sum of one number before all have called. The barrier of gloo, which made the
    # group, would let the ranks go at times that differ by more than what is measured.
    flag = torch.zeros(1)
    return Contestant(all_reduce, lambda: all_reduce(flag))


def slowest(times: list[float]) -> list[float]:
    tensor = torch.tensor(times, dtype=torch.float64)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return tensor.tolist()


def batch_seconds(who: Contestant, tensor: torch.Tensor, iterations: int, touch: bool) -> float:
    if not touch:
        who.barrier()
        start = time.perf_counter()
        for _ in range(iterations):
            who.all_reduce(tensor)
        return time.perf_counter() - start
    total = 0.0
    lines = tensor[::16]  # an element of each cache line
    for _ in range(iterations):
        tensor.zero_()
        who.barrier()
        start = time.perf_counter()
        who.all_reduce(tensor)
        lines.sum()
        total += time.perf_counter() - start
    return total


def measure(who: Contestant, tensor: torch.Tensor, touch: bool) -> tuple[float, float]:
    """Best and median microseconds of one all_reduce."""
    tensor.zero_()
    for _ in range(WARMUP):
        who.all_reduce(tensor)
    iterations = 1
    while True:
        seconds = slowest([batch_seconds(who, tensor, iterations, touch)])[0]
        if seconds > BATCH_SECONDS / 8 or iterations >= MOST_ITERATIONS:
            break
        iterations *= 2
    iterations = min(max(1, int(BATCH_SECONDS / seconds * iterations)), MOST_ITERATIONS)
    times = slowest([batch_seconds(who, tensor, iterations, touch) for _ in range(BATCHES)])
    return min(times) / iterations * 1e6, statistics.median(times) / iterations * 1e6


def check(who: Contestant, name: str, rank: int, ranks: int, tensor: torch.Tensor) -> None:
    pattern = torch.arange(7.0).repeat(len(tensor) // 7 + 1)[: len(tensor)]
    tensor.copy_(pattern + 1000 * (rank + 1))
    who.all_reduce(tensor)
    if not torch.equal(tensor, ranks * pattern + 1000 * ranks * (ranks + 1) / 2):
        sys.exit(f"rank {rank}: {name} adds {4 * len(tensor)} bytes wrongly")


def make_tensor(size: int, args: argparse.Namespace) -> torch.Tensor:
    count = max(1, size // 4)
    if args.memory == "private":
        return torch.empty(count)
    return __import__(args.backend).empty(count, dtype=torch.float32)


def run_rank(rank: int, args: argparse.Namespace, who: Contestant) -> None:
    for size in args.sizes:
        check(who, args.peer or args.backend, rank, args.ranks, make_tensor(size, args))
    for mode in args.modes:
        for size in args.sizes:
            best, median = measure(who, make_tensor(size, args), mode == "touched")
            if rank == 0:
                row = {"mode": mode, "bytes": size, "best_us": best, "median_us": median}
                print(json.dumps(row), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--peer", default="", choices=["", *PEERS], help="instead of a backend")
    parser.add_argument("--folder", help="where --install-peers has put the peer")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", type=lambda t: [int(s) for s in t.split(",")], default=[8, 4096])
    parser.add_argument("--modes", type=lambda t: t.split(","), default=["plain"])
    parser.add_argument("--memory", choices=["private", "shared"], default="private")
    parser.add_argument("--hosts", type=lambda t: t.split(","), help="network namespaces by rank")
    args = parser.parse_args()
    if args.peer:
        join, args.backend = PEERS[args.peer](args.folder), "gloo"

        def body(rank: int) -> None:
            run_rank(rank, args, of_peer(join(rank, args.ranks)))
    else:

        def body(rank: int) -> None:
            run_rank(rank, args, Contestant())

    return fork_ranks(args.backend, args.ranks, body, args.hosts)


if __name__ == "__main__":
    sys.exit(main())

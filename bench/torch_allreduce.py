"""dist.all_reduce of float32, in place, sum, through any backend of torch.distributed.

The rules of bench/batches.h, in Python: batches of about 2 ms, each taken from its slowest rank;
best and median of seven. Prints one JSON object per size. bench/peers runs it for gloo and for
ringwood, one after the other, so that both pay the same for Python and for c10d:

    python bench/torch_allreduce.py --backend gloo --ranks 2 --sizes 8,4096,1048576
"""

import argparse
import ctypes
import json
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist

BATCHES, WARMUP, MOST_ITERATIONS, BATCH_SECONDS = 7, 5, 20000, 2e-3
PR_SET_PDEATHSIG = 1


def pin(rank: int, ranks: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= ranks:
        os.sched_setaffinity(0, {cores[rank]})


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


def measure(size: int, touch: bool) -> tuple[float, float]:
    """Best and median microseconds of one all_reduce."""
    tensor = torch.zeros(max(1, size // 4))
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


def check(rank: int, ranks: int, size: int) -> None:
    tensor = torch.full((max(1, size // 4),), float(rank + 1))
    dist.all_reduce(tensor)
    if not bool((tensor == ranks * (ranks + 1) / 2).all()):
        sys.exit(f"rank {rank}: {dist.get_backend()} added wrongly")


def run_rank(rank: int, args: argparse.Namespace, store: str) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    pin(rank, args.ranks)
    torch.set_num_threads(1)
    if args.backend not in ("gloo", "mpi"):
        __import__(args.backend)
    dist.init_process_group(
        args.backend,
        init_method=f"file://{store}",
        rank=rank,
        world_size=args.ranks,
        timeout=timedelta(seconds=120),
    )
    check(rank, args.ranks, max(args.sizes))
    for mode in args.modes:
        for size in args.sizes:
            best, median = measure(size, mode == "touched")
            if rank == 0:
                row = {"mode": mode, "bytes": size, "best_us": best, "median_us": median}
                print(json.dumps(row), flush=True)
    dist.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", type=lambda t: [int(s) for s in t.split(",")], default=[8, 4096])
    parser.add_argument("--modes", type=lambda t: t.split(","), default=["plain"])
    args = parser.parse_args()
    # torch is imported once and the ranks are forked: on few cores an import costs seconds.
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="torch-allreduce-") as folder:
        store = os.path.join(folder, "store")
        ranks = [context.Process(target=run_rank, args=(r, args, store)) for r in range(args.ranks)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
    return max(abs(process.exitcode) for process in ranks)


if __name__ == "__main__":
    sys.exit(main())

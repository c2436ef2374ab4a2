"""Zero copy: tensors that the processes of a host read and write in place, and what that gains.

    torchrun --nproc-per-node 2 zero_copy.py

A tensor of ringwood.empty() lies in memory that all processes of the host have mapped; after
share_large_tensors() so does every new large CPU tensor, those that a script never sees included,
such as the buckets of DistributedDataParallel. (RINGWOOD_SHARE_TENSORS=1M does that without a
change of the script.) It prints the best of several all_reduces of 16 MiB, for example:

    torch.empty              1461 us
    ringwood.empty            827 us   1.77 times as fast
    share_large_tensors       830 us   1.76 times as fast
"""

import time

import ringwood
import torch
import torch.distributed as dist

COUNT, ROUNDS = (16 << 20) // 4, 30

dist.init_process_group("ringwood")
rank, size = dist.get_rank(), dist.get_world_size()


def microseconds(tensor: torch.Tensor) -> float:
    """Of one all_reduce, for the slowest rank; the sum is checked."""
    tensor.fill_(rank + 1)
    dist.barrier()
    begin = time.perf_counter()
    dist.all_reduce(tensor)
    taken = torch.tensor(1e6 * (time.perf_counter() - begin))
    if not tensor.eq(size * (size + 1) / 2).all():
        raise RuntimeError("the sum is wrong")
    dist.all_reduce(taken, dist.ReduceOp.MAX)
    return taken.item()


tensors = {"torch.empty": torch.empty(COUNT), "ringwood.empty": ringwood.empty(COUNT)}
ringwood.share_large_tensors(min_bytes=1 << 20)
tensors["share_large_tensors"] = torch.empty(COUNT)

best = dict.fromkeys(tensors, float("inf"))
for _ in range(ROUNDS):  # in turn, so that a slow moment of the machine hits all of them
    for name, tensor in tensors.items():
        best[name] = min(best[name], microseconds(tensor))

if rank == 0:
    ordinary = best["torch.empty"]
    for name, time_us in best.items():
        gain = f"   {ordinary / time_us:.2f} times as fast" if time_us != ordinary else ""
        print(f"{name:<20} {time_us:8.0f} us{gain}", flush=True)
dist.destroy_process_group()

"""Hello: each process has a tensor, and afterwards each has the sum of all.

    torchrun --nproc-per-node 2 hello.py

prints, in any order:

    rank 0 of 2 has [3.0, 30.0]
    rank 1 of 2 has [3.0, 30.0]
"""

import torch
import torch.distributed as dist

dist.init_process_group("ringwood")
rank, size = dist.get_rank(), dist.get_world_size()
tensor = torch.tensor([1.0, 10.0]) * (rank + 1)
dist.all_reduce(tensor)
print(f"rank {rank} of {size} has {tensor.tolist()}", flush=True)
dist.destroy_process_group()

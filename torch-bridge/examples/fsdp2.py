"""FSDP2: every process keeps a share of the weights, and has a layer whole only while it computes.

    torchrun --nproc-per-node 2 fsdp2.py

fully_shard() gathers the weights of a layer before its forward and backward pass (all_gather) and
adds up its gradients, each process getting those of its share (reduce_scatter). The losses are
those of DistributedDataParallel, or of one process. It prints the share and the losses:

    each of 2 ranks keeps 133,640 of 267,280 parameters
    step 0: loss 1.0146
    ...
    step 9: loss 0.2169

With 4 processes (--nproc-per-node 4) the share is a quarter, and the losses are the same.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

STEPS, BATCH, WIDTH = 10, 32, 256

dist.init_process_group("ringwood")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,))

torch.manual_seed(0)  # every rank begins with the same weights and makes the same batch
model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(4)])
model.append(nn.Linear(WIDTH, 16))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)  # of shares, so its state is one, too

parameters = sum(p.numel() for p in model.parameters())
kept = sum(p.to_local().numel() for p in model.parameters())
if rank == 0:
    print(f"each of {size} ranks keeps {kept:,} of {parameters:,} parameters", flush=True)

inputs, targets = torch.randn(BATCH, WIDTH), torch.randn(BATCH, 16)
mine = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
for step in range(STEPS):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs[mine]), targets[mine])
    loss.backward()
    optimizer.step()
    mean = loss.detach() / size
    dist.all_reduce(mean)
    if rank == 0:
        print(f"step {step}: loss {mean.item():.4f}", flush=True)
dist.destroy_process_group()

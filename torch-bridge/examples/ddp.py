"""Data parallel training, to copy from: with gloo in the place of "ringwood" it does the same.

    torchrun --nproc-per-node 2 ddp.py

Every process trains on its share of each batch, and DistributedDataParallel averages the gradients.
It prints the loss of every epoch, and that all processes end with the same weights:

    epoch 0: loss 0.2622
    ...
    epoch 4: loss 0.0014
    equal weights on 2 ranks: True

train.py is a whole program: real data, held-out accuracy, checkpoints.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("ringwood")
rank, size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)  # every rank makes the same data; the sampler gives each its share
inputs = torch.randn(4096, 16)
data = TensorDataset(inputs, (inputs @ torch.randn(16, 1)).tanh())
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=64 // size, sampler=sampler)

layers = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
model = DistributedDataParallel(layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for epoch in range(5):
    sampler.set_epoch(epoch)  # another order
    total = torch.zeros(1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.detach() / len(loader) / size
    dist.all_reduce(total)
    if rank == 0:
        print(f"epoch {epoch}: loss {total.item():.4f}", flush=True)

weights = nn.utils.parameters_to_vector(layers.parameters()).detach()
everyones = [torch.empty_like(weights) for _ in range(size)]
dist.all_gather(everyones, weights)
if rank == 0:
    print(f"equal weights on {size} ranks: {all(weights.equal(one) for one in everyones)}")
dist.destroy_process_group()

"""Reproducible sums: the same bits wherever the processes are, and however they are added up.

    torchrun --nproc-per-node 4 reproducible.py

All processes always end with the same bits; but which bits these are depends on the order of the
additions, and so on the algorithm, which follows the size, the machine and who is on which host.
RINGWOOD_REPRODUCIBLE=1 in the environment (here set before a group is made) makes every group add
in the order of the ranks. It prints a hash of the same sum, taken in several groups:

                    default           reproducible
    one host        624206d0337c3a64  2673103c08b12826
    two hosts       c9f749b38f4ac332  2673103c08b12826
    one_shot        2673103c08b12826  2673103c08b12826
    rank_order      2673103c08b12826  2673103c08b12826
    different sums  3                 1
"""

import hashlib
import os

import torch
import torch.distributed as dist

dist.init_process_group("ringwood")
rank = dist.get_rank()
numbers = torch.randn(1 << 18, generator=torch.Generator().manual_seed(rank))

# What is different: where the ranks are (here they only say so), or the algorithm.
WAYS = {
    "one host": {},
    "two hosts": {"RINGWOOD_HOST_ID": f"host-{rank % 2}"},
    "one_shot": {"RINGWOOD_ALGORITHM": "all_reduce:one_shot"},
    "rank_order": {"RINGWOOD_ALGORITHM": "all_reduce:rank_order"},
}


def bits_of_sum(**environment: str) -> str:
    before = dict(os.environ)
    os.environ.update(environment)
    group = dist.new_group()  # reads the environment
    os.environ.clear()
    os.environ.update(before)
    tensor = numbers.clone()
    dist.all_reduce(tensor, group=group)
    return hashlib.sha256(tensor.numpy().tobytes()).hexdigest()[:16]


default = {name: bits_of_sum(**way) for name, way in WAYS.items()}
same = {name: bits_of_sum(RINGWOOD_REPRODUCIBLE="1", **way) for name, way in WAYS.items()}
if rank == 0:
    rows = [("", "default", "reproducible")]
    rows += [(name, default[name], same[name]) for name in WAYS]
    rows += [("different sums", len(set(default.values())), len(set(same.values())))]
    for row in rows:
        print("{:<15} {:<17} {}".format(*row), flush=True)
dist.destroy_process_group()

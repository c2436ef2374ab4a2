"""The smallest job under any launcher, also one that does not say the rank in RANK and LOCAL_RANK.

torchrun --nproc-per-node 2 launched.py
python -m torch.distributed.launch --nproc_per_node=2 launched.py     (--local-rank=R)
python launched.py --init_method tcp://HOST:PORT --rank R --world_size N
WORLD_SIZE=4 WORKER_PER_NODE=2 NODE_RANK=1 LOCAL_RANK=0 python launched.py
"""

import argparse
import os
import sys


def parse() -> argparse.Namespace:
    def number(name: str) -> int | None:
        return int(os.environ[name]) if name in os.environ else None

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, default=number("RANK"))
    parser.add_argument("--world_size", type=int, default=number("WORLD_SIZE"))
    # torch.distributed.launch says it with a hyphen since torch 2.0, and with an underscore before.
    parser.add_argument("--local_rank", "--local-rank", type=int, default=number("LOCAL_RANK"))
    parser.add_argument("--init_method", default="env://")
    parser.set_defaults(per_node=number("WORKER_PER_NODE"), node=number("NODE_RANK") or 0)
    return parser.parse_args()


def settle_ranks(args: argparse.Namespace) -> None:
    """Fills in what the launcher did not say."""
    if args.rank is None:
        if args.local_rank is None or args.per_node is None:
            sys.exit("no rank was given: set RANK, or NODE_RANK, WORKER_PER_NODE and LOCAL_RANK")
        args.rank = args.node * args.per_node + args.local_rank
    if args.world_size is None:
        sys.exit("the number of ranks was not given: set WORLD_SIZE")
    if args.local_rank is None:
        args.local_rank = args.rank


def main() -> None:
    args = parse()
    settle_ranks(args)
    import torch
    import torch.distributed as dist

    dist.init_process_group(
        os.environ["BACKEND"],
        init_method=args.init_method,
        rank=args.rank,
        world_size=args.world_size,
    )
    place = f"{dist.get_backend()} on cpu:{args.local_rank}"
    numbers = torch.tensor([1.0, args.rank])
    dist.all_reduce(numbers)
    total = ", ".join(f"{number:g}" for number in numbers)
    print(f"rank {args.rank} of {dist.get_world_size()}: {place}: {total}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

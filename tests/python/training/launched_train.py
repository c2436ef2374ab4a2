"""train.py under launchers that do not say the rank as torchrun does, in RANK and LOCAL_RANK.

    python -m torch.distributed.launch --nproc_per_node=2 launched_train.py     (--local-rank=R)
    python launched_train.py --init_method tcp://HOST:PORT --rank R --world_size N
    WORLD_SIZE=4 WORKER_PER_NODE=2 NODE_RANK=1 LOCAL_RANK=0 python launched_train.py

Its options are those of train.py besides.
"""

import argparse
import os
import sys
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "torch-bridge" / "examples"))
import torch.distributed as dist
import train


def parse() -> argparse.Namespace:
    def number(name: str) -> int | None:
        return int(os.environ[name]) if name in os.environ else None

    parser = train.make_parser()
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
    dist.init_process_group(
        args.backend,
        init_method=args.init_method,
        rank=args.rank,
        world_size=args.world_size,
        timeout=timedelta(seconds=args.timeout),
    )
    train.run(args, args.local_rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Trains a small ResNet on handwritten digits with DistributedDataParallel, under any launcher.

    torchrun --standalone --nproc_per_node=2 train.py
    torchrun --nnodes=2 --nproc_per_node=2 --rdzv_id=job --rdzv_backend=c10d \
        --rdzv_endpoint=HOST:PORT train.py                                      (on both hosts)
    python -m torch.distributed.launch --nproc_per_node=2 train.py
    python train.py --init_method tcp://HOST:PORT --rank R --world_size N       (N times)
    MASTER_ADDR=HOST MASTER_PORT=PORT RANK=R WORLD_SIZE=N python train.py       (N times)

Variables, each with an option of the same name in lower case:
    BACKEND          ringwood, or any other that torch knows (gloo, nccl, mpi)
    EPOCHS, LR       passes over the data, and the rate that a cosine takes to zero over them
    BATCH_SIZE       images per rank and step
    DATASETS_PATH    folder of data sets (default: written from scikit-learn's digits)
    DATASETS         the one to take, a folder in it; empty if DATASETS_PATH is the data set itself
    WORKSPACE        where checkpoint.pt and result.json go; --resume goes on from there
    WORKER_PER_NODE, NODE_RANK   say the rank where a launcher gives no RANK
After every epoch the ranks compare a hash of all weights, and stop if they differ by one bit.
"""

import argparse
import ctypes
import functools
import hashlib
import json
import math
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import digits
import torch
import torch.distributed as dist
from model import resnet
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from tqdm import tqdm

PR_SET_PDEATHSIG = 1


def parse() -> argparse.Namespace:
    def variable(name: str, kind: type, default: object) -> None:
        value = os.environ.get(name)
        parser.add_argument(f"--{name.lower()}", type=kind, default=value or default)

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    variable("BACKEND", str, "ringwood")
    variable("EPOCHS", int, 8)
    variable("LR", float, 0.1)
    variable("BATCH_SIZE", int, 32)
    variable("DATASETS_PATH", Path, None)
    variable("DATASETS", str, "")
    variable("WORKSPACE", Path, Path("workspace"))
    variable("WORKER_PER_NODE", int, None)
    variable("NODE_RANK", int, 0)
    variable("RANK", int, None)
    variable("WORLD_SIZE", int, None)
    variable("LOCAL_RANK", int, None)
    # torch.distributed.launch says it with a hyphen since torch 2.0, and with an underscore before.
    parser.add_argument("--local-rank", type=int, dest="local_rank", help=argparse.SUPPRESS)
    parser.add_argument("--init_method", default="env://")
    parser.add_argument("--device", help="default: cuda:LOCAL_RANK if possible, or cpu:LOCAL_RANK")
    parser.add_argument("--loaders", type=int, default=0, help="data loading processes per rank")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one collective")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="go on from WORKSPACE/checkpoint.pt")
    return parser.parse_args()


def settle_ranks(args: argparse.Namespace) -> None:
    """Fills in what the launcher did not say."""
    if args.rank is None:
        if args.local_rank is None or args.worker_per_node is None:
            sys.exit("no rank was given: set RANK, or NODE_RANK, WORKER_PER_NODE and LOCAL_RANK")
        args.rank = args.node_rank * args.worker_per_node + args.local_rank
    if args.world_size is None:
        sys.exit("the number of ranks was not given: set WORLD_SIZE")
    local_size = args.worker_per_node or int(os.environ.get("LOCAL_WORLD_SIZE", args.world_size))
    if args.local_rank is None:
        args.local_rank = args.rank % local_size
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // local_size))


def choose_device(args: argparse.Namespace) -> torch.device:
    able = dist.Backend.backend_capability.get(args.backend.lower(), [])
    if args.device:
        device = torch.device(args.device)
    elif "cuda" in able and args.local_rank < torch.cuda.device_count():
        device = torch.device("cuda", args.local_rank)
    else:
        device = torch.device("cpu", args.local_rank)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device


def die_with_rank(rank_pid: int, _worker: int) -> None:
    """In a data loading process: torch's own watch over the rank begins only later than this, and
    a rank that is killed before that leaves a process that waits for ever."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != rank_pid:
        os._exit(1)


def make_loaders(args: argparse.Namespace) -> dict[str, DataLoader]:
    folder = args.workspace / "digits"
    if args.datasets_path:
        folder = args.datasets_path / args.datasets
    elif args.local_rank == 0 and not digits.is_complete(folder):
        digits.write_digits(folder)
    dist.barrier()
    loaders = {}
    for part in ("train", "test"):
        images, labels = digits.load(folder, part)
        pixels = torch.from_numpy(images.copy()).float().div(255).sub(0.5).unsqueeze(1)
        data = TensorDataset(pixels, torch.from_numpy(labels.copy()).long())
        # Held-out images are each seen once, so their shares may differ in size.
        indices = range(args.rank, len(data), args.world_size)
        sampler = DistributedSampler(data, seed=args.seed) if part == "train" else indices
        loaders[part] = DataLoader(
            data,
            args.batch_size,
            sampler=sampler,
            num_workers=args.loaders,
            worker_init_fn=functools.partial(die_with_rank, os.getpid()),
        )
    return loaders


def train_epoch(model: nn.Module, loader: DataLoader, optimizer, device, title: str) -> dict:
    """One pass; rank 0 gets the mean loss over all ranks."""
    model.train()
    total, steps, started = torch.zeros(1, device=device), [], time.perf_counter()
    bar = tqdm(loader, title, unit="step", disable=dist.get_rank() != 0, mininterval=0.5)
    for images, labels in bar:
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        total += loss.detach()
        bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
        steps.append(time.perf_counter() - begin)
    dist.reduce(total, dst=0)
    loss = total.item() / len(loader) / dist.get_world_size()
    return {"loss": loss, "steps": steps, "seconds": time.perf_counter() - started}


def evaluate(model: nn.Module, loader: DataLoader, device: torch.device) -> float:
    """The share of held-out images that are recognised, over all ranks."""
    model.eval()
    counts = torch.zeros(2, dtype=torch.int64, device=device)
    with torch.no_grad():
        for images, labels in loader:
            right = model(images.to(device)).argmax(1) == labels.to(device)
            counts += torch.tensor([right.sum().item(), len(labels)], device=device)
    dist.all_reduce(counts)
    return counts[0].item() / counts[1].item()


def check_equal_weights(model: nn.Module, epoch: int, device: torch.device) -> str:
    """Fails unless all ranks hold the same bits; returns their hash."""
    digest = hashlib.sha256()
    for tensor in model.state_dict().values():
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    mine = torch.tensor(list(digest.digest()), dtype=torch.uint8, device=device)
    all_hashes = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(all_hashes, mine)
    others = [rank for rank, theirs in enumerate(all_hashes) if not theirs.equal(all_hashes[0])]
    if others:
        raise RuntimeError(f"after epoch {epoch} the weights of ranks {others} are not rank 0's")
    return digest.hexdigest()


def save(path: Path, model: nn.Module, optimizer, epoch: int, history: list) -> None:
    """The weights carry no "module." prefix: they load into the model without DDP, too."""
    weights = {name.removeprefix("module."): value for name, value in model.state_dict().items()}
    state = {
        "model": weights,
        "optimizer": optimizer.state_dict(),
        "epoch": epoch,
        "history": history,
    }
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.rename(path)  # never half a checkpoint


def load_on_rank_0(path: Path) -> dict | None:
    """The other ranks need no access to the file."""
    box = [None]
    if dist.get_rank() == 0 and path.exists():
        box = [torch.load(path, map_location="cpu", weights_only=True)]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def run(args: argparse.Namespace, device: torch.device) -> dict:
    loaders = make_loaders(args)
    torch.manual_seed(args.seed)
    bare = resnet().to(device)
    optimizer = torch.optim.SGD(
        bare.parameters(), lr=args.lr, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    first, history = 0, []
    checkpoint = args.workspace / "checkpoint.pt"
    state = load_on_rank_0(checkpoint) if args.resume else None
    if state:
        bare.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first, history = state["epoch"], state["history"]
    model = DistributedDataParallel(bare)
    for epoch in range(first, args.epochs):
        loaders["train"].sampler.set_epoch(epoch)
        for group in optimizer.param_groups:
            group["lr"] = args.lr * 0.5 * (1 + math.cos(math.pi * epoch / args.epochs))
        title = f"{args.backend} epoch {epoch + 1}/{args.epochs}"
        row = train_epoch(model, loaders["train"], optimizer, device, title)
        row["accuracy"] = evaluate(model, loaders["test"], device)
        row["weights"] = check_equal_weights(model, epoch + 1, device)
        history.append(row)
        if args.rank == 0:
            print(f"{title}: loss {row['loss']:.4f}, held-out accuracy {row['accuracy']:.4f}")
            save(checkpoint, model, optimizer, epoch + 1, history)
    dist.barrier()
    return {
        "accuracy": history[-1]["accuracy"],
        "weights": history[-1]["weights"],
        "epochs": history,
    }


def main() -> None:
    args = parse()
    settle_ranks(args)
    device = choose_device(args)
    dist.init_process_group(
        args.backend,
        init_method=args.init_method,
        rank=args.rank,
        world_size=args.world_size,
        timeout=timedelta(seconds=args.timeout),
    )
    print(f"rank {args.rank} of {args.world_size}: {args.backend} on {device}", flush=True)
    args.workspace.mkdir(parents=True, exist_ok=True)
    result = run(args, device)
    if args.rank == 0:
        steps = sorted(step for row in result["epochs"] for step in row.pop("steps"))
        result |= {"backend": args.backend, "ranks": args.world_size}
        result["step_ms"] = 1000 * steps[len(steps) // 2]
        (args.workspace / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Trains a small ResNet on handwritten digits: a whole program around DistributedDataParallel.

    torchrun --nproc-per-node 2 train.py
    torchrun --nnodes 2 --nproc-per-node 2 --rdzv-id job --rdzv-backend c10d \
        --rdzv-endpoint HOST:PORT train.py                                      (on both hosts)
    MASTER_ADDR=HOST MASTER_PORT=PORT RANK=R WORLD_SIZE=N python train.py       (N times)

It prints the loss and the held-out accuracy of every epoch, 0.98 at the end, and leaves
checkpoint.pt and result.json in WORKSPACE. After every epoch the ranks compare a hash of all
weights, and stop if they differ by one bit. compare.py puts the results of two backends side by
side, digits.py reads the data, and ddp.py is the shortest such program.

Variables, each with an option of the same name in lower case:
    BACKEND          ringwood, or any other for CPU tensors that torch knows (gloo, mpi)
    EPOCHS, LR       passes over the data, and the rate that a cosine takes to zero over them
    BATCH_SIZE       images per rank and step
    DATASETS_PATH    folder of data sets (default: written from scikit-learn's digits)
    DATASETS         the one to take, a folder in it; empty if DATASETS_PATH is the data set itself
    WORKSPACE        where checkpoint.pt and result.json go; --resume goes on from there
"""

import argparse
import ctypes
import functools
import hashlib
import json
import math
import os
import signal
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


def make_parser() -> argparse.ArgumentParser:
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
    parser.add_argument("--loaders", type=int, default=0, help="data loading processes per rank")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one collective")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="go on from WORKSPACE/checkpoint.pt")
    return parser


def die_with_rank(rank_pid: int, _worker: int) -> None:
    """In a data loading process: torch's own watch over the rank begins only later than this, and
    a rank that is killed before that leaves a process that waits for ever."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != rank_pid:
        os._exit(1)


def make_loaders(args: argparse.Namespace, local_rank: int) -> dict[str, DataLoader]:
    folder = args.workspace / "digits"
    if args.datasets_path:
        folder = args.datasets_path / args.datasets
    elif local_rank == 0 and not digits.is_complete(folder):
        digits.write_digits(folder)
    dist.barrier()
    loaders = {}
    for part in ("train", "test"):
        images, labels = digits.load(folder, part)
        pixels = torch.from_numpy(images.copy()).float().div(255).sub(0.5).unsqueeze(1)
        data = TensorDataset(pixels, torch.from_numpy(labels.copy()).long())
        # Held-out images are each seen once, so their shares may differ in size.
        indices = range(dist.get_rank(), len(data), dist.get_world_size())
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


def epochs(args: argparse.Namespace, local_rank: int) -> list[dict]:
    """Trains; what became of every epoch, of which rank 0 writes a checkpoint."""
    device = torch.device("cpu", local_rank)
    loaders = make_loaders(args, local_rank)
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
        if dist.get_rank() == 0:
            print(f"{title}: loss {row['loss']:.4f}, held-out accuracy {row['accuracy']:.4f}")
            save(checkpoint, model, optimizer, epoch + 1, history)
    dist.barrier()
    return history


def run(args: argparse.Namespace, local_rank: int) -> None:
    """The whole training, in the group that there is."""
    rank, size = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {size}: {args.backend} on cpu:{local_rank}", flush=True)
    args.workspace.mkdir(parents=True, exist_ok=True)
    history = epochs(args, local_rank)
    if rank == 0:
        steps = sorted(step for row in history for step in row.pop("steps"))
        result = {"backend": args.backend, "ranks": size}
        result |= {name: history[-1][name] for name in ("accuracy", "weights")}
        result |= {"step_ms": 1000 * steps[len(steps) // 2], "epochs": history}
        (args.workspace / "result.json").write_text(json.dumps(result, indent=1) + "\n")


def main() -> None:
    args = make_parser().parse_args()
    dist.init_process_group(args.backend, timeout=timedelta(seconds=args.timeout))
    run(args, int(os.environ.get("LOCAL_RANK", dist.get_rank())))
    dist.destroy_process_group()
    # gloo's threads need Python's lock to drop their last tensors, after the call has returned: one
    # that has not got it when Python ends aborts the process.
    time.sleep(0.1)


if __name__ == "__main__":
    main()

"""What gpu-check does with the torch of this Python: prints one JSON object.

torch_ranks.py facts             what there is; "skipped" says why the rest cannot be tried
torch_ranks.py training RANKS    DDP and FSDP2 on GPUs, ranks sharing them, against one process
torch_ranks.py peers RANKS       times of all_reduce with CUDA tensors, beside gloo's
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
STEPS, SAMPLES, CLOSE = 5, 16, 1e-5
SIZES = [8, 1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 28]  # bytes


def load_device(options: argparse.Namespace) -> None:
    if options.device != "cuda":  # a rehearsal, with the device of tests/ghost
        sys.path.append(str(ROOT / "tests" / "ghost"))
        import ghost

        ghost.load(ROOT / "build", devices=2)


def facts(options: argparse.Namespace) -> dict:
    try:
        import torch
    except ImportError:
        return {"ok": True, "skipped": "this Python has no torch"}
    found = {"ok": True, "torch": torch.__version__, "cuda": torch.version.cuda}
    try:
        from ringwood import _autoload

        _autoload._module()
    except RuntimeError as error:
        return found | {"skipped": f"no bridge for it: {error}"}
    if options.device == "cuda" and torch.version.cuda is None:
        return found | {"skipped": "this torch is built without CUDA"}
    load_device(options)
    if not torch.accelerator.is_available():
        return found | {"ok": False, "why": "torch sees no GPU, and the driver has one"}
    return found | {"gpus": torch.accelerator.device_count()}


def begin(rank: int, ranks: int, options: argparse.Namespace, backend: str = "ringwood"):
    import ringwood  # noqa: F401
    import torch
    import torch.distributed as dist

    load_device(options)
    device = torch.device(options.device, rank % torch.accelerator.device_count())
    torch.accelerator.set_device_index(device.index)
    dist.init_process_group(
        f"cpu:{backend},{options.device}:{backend}",
        init_method=f"file://{options.folder}/store-{backend}",
        rank=rank,
        world_size=ranks,
    )
    return device


def model():
    import torch

    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.Linear(64, 1)
    )


def train(module, device, share: slice) -> None:
    import torch

    generator = torch.Generator().manual_seed(2)
    inputs = torch.randn(SAMPLES, 32, generator=generator)[share].to(device)
    wanted = torch.randn(SAMPLES, 1, generator=generator)[share].to(device)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(module(inputs), wanted).backward()
        optimizer.step()


def worst(parameters, alone) -> float:
    pairs = zip(parameters, alone.parameters(), strict=True)
    return max((a.detach().cpu() - b.detach().cpu()).abs().max().item() for a, b in pairs)


def training_rank(rank: int, ranks: int, options: argparse.Namespace) -> None:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    device = begin(rank, ranks, options)
    share = slice(rank * SAMPLES // ranks, (rank + 1) * SAMPLES // ranks)
    alone = model().to(device)
    train(alone, device, slice(None))
    parallel = DistributedDataParallel(model().to(device))
    train(parallel, device, share)
    sharded = model().to(device)
    mesh = init_device_mesh(options.device, (ranks,))
    for layer in (sharded[0], sharded[2], sharded):
        fully_shard(layer, mesh=mesh)
    train(sharded, device, share)
    whole = [parameter.full_tensor() for parameter in sharded.parameters()]
    found = {"ddp": worst(parallel.parameters(), alone), "fsdp2": worst(whole, alone)}
    dist.destroy_process_group()
    if rank == 0:
        Path(options.folder, "found").write_text(json.dumps(found))


def training(options: argparse.Namespace) -> dict:
    found = spawned(training_rank, options)
    far = [f"{name} differs by {error:.2g}" for name, error in found.items() if error > CLOSE]
    why = f"from one process {', '.join(far)}" if far else ""
    return {"ok": not far, "ranks": options.ranks, "error": found, "why": why}


def times_rank(rank: int, ranks: int, options: argparse.Namespace, backend: str) -> None:
    import torch
    import torch.distributed as dist

    device = begin(rank, ranks, options, backend)
    times = {}
    for size in [size for size in SIZES if size <= options.maxbytes]:
        data = torch.ones(size // 4, device=device)
        turns = 5 if size > 1 << 20 else 20
        taken = []
        for turn in range(-2, turns):
            torch.accelerator.synchronize()
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(data)
            torch.accelerator.synchronize()
            if turn >= 0:
                taken.append((time.perf_counter() - start) * 1e6)
        times[size] = round(sorted(taken)[turns // 2], 1)
    dist.destroy_process_group()
    if rank == 0:
        Path(options.folder, "found").write_text(json.dumps(times))


def peers(options: argparse.Namespace) -> dict:
    """Medians of rank 0, in microseconds, by bytes."""
    found = {"ok": True, "ranks": options.ranks}
    backends = ["ringwood", "gloo"] if options.device == "cuda" else ["ringwood"]
    for backend in backends:
        try:
            found[f"{backend}_us"] = spawned(times_rank, options, backend)
        except Exception as error:
            if backend == "ringwood":
                raise
            found[f"{backend}_why"] = str(error).strip().splitlines()[-1][:500]
    return found


def spawned(function, options: argparse.Namespace, *more: str):
    """What rank 0 has written; an exception of a rank is raised here."""
    import torch.multiprocessing as mp

    with tempfile.TemporaryDirectory() as folder:
        options.folder = folder
        mp.spawn(function, args=(options.ranks, options, *more), nprocs=options.ranks)
        return json.loads(Path(folder, "found").read_text())


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["facts", "training", "peers"])
    parser.add_argument("ranks", type=int, nargs="?", default=2)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--maxbytes", type=int, default=SIZES[-1])
    options = parser.parse_args()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    try:
        result = {"facts": facts, "training": training, "peers": peers}[options.what](options)
    except Exception as error:  # of torch, of a rank: all are a step that failed
        said = str(error).strip()
        result = {"ok": False, "why": said.splitlines()[-1][:500], "output": said[-6000:]}
    print(json.dumps(result))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())

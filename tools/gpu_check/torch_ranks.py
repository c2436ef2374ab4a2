"""What gpu-check does with a torch that has CUDA: prints one JSON object.

torch_ranks.py facts          what there is, and what cannot be done with it
torch_ranks.py ddp RANKS      a model trained over Ringwood on CUDA tensors, against one process
torch_ranks.py nccl RANKS     times of NCCL's in-place all-reduce, a rank for each GPU
"""

import json
import os
import socket
import sys
import tempfile
from pathlib import Path

SIZES = (8, 65536, 1 << 28)
STEPS, SAMPLES = 5, 16


def bridge_without_cuda() -> str:
    """Why DDP over Ringwood cannot be tried on CUDA tensors; "" if it can."""
    import torch.distributed as dist

    try:
        import ringwood  # noqa: F401
    except ImportError as error:
        return f"the bridge cannot be imported by this torch: {error}"
    devices = dist.Backend.backend_capability.get("ringwood", [])
    return "" if "cuda" in devices else "this bridge takes tensors of the CPU only"


def facts() -> dict:
    try:
        import torch
    except ImportError:
        return {"ok": False, "why": "this Python has no torch"}
    if not torch.cuda.is_available():
        why = f"torch {torch.__version__} sees no GPU"
        return {"ok": True, "torch": torch.__version__, "no_ddp": why, "no_nccl": why}
    no_nccl = "" if torch.distributed.is_nccl_available() else "this torch has no NCCL"
    return {
        "ok": True,
        "torch": torch.__version__,
        "no_ddp": bridge_without_cuda(),
        "no_nccl": no_nccl,
    }


def model_and_data(device):
    import torch

    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)
    ).to(device)
    return model, torch.randn(SAMPLES, 32, device=device), torch.randn(SAMPLES, 1, device=device)


def train(model, inputs, wanted) -> list[float]:
    """The parameters after a few steps."""
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), wanted).backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()]).cpu().tolist()


def ddp_rank(rank: int, ranks: int, folder: str) -> None:
    import torch
    import torch.distributed as dist

    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group(
        "ringwood", init_method=f"file://{folder}/store", rank=rank, world_size=ranks
    )
    model, inputs, wanted = model_and_data(device)
    share = slice(rank * SAMPLES // ranks, (rank + 1) * SAMPLES // ranks)
    parallel = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device.index])
    found = train(parallel, inputs[share], wanted[share])
    dist.destroy_process_group()
    if rank == 0:
        Path(folder, "found").write_text(json.dumps(found))


def nccl_rank(rank: int, ranks: int, folder: str) -> None:
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl", init_method=f"file://{folder}/store", rank=rank, world_size=ranks
    )
    times = {}
    for size in SIZES:
        data = torch.ones(size // 4, device="cuda")
        turns = 10 if size > 1 << 20 else 100
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for turn in range(-5, turns):
            if turn == 0:
                torch.cuda.synchronize()
                dist.barrier()
                start.record()
            dist.all_reduce(data)
        end.record()
        torch.cuda.synchronize()
        slowest = torch.tensor([start.elapsed_time(end) * 1e3 / turns], device="cuda")
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        times[size] = slowest.item()
    dist.destroy_process_group()
    if rank == 0:
        Path(folder, "found").write_text(json.dumps(times))


def spawned(function, ranks: int):
    """What rank 0 has written; an exception of a rank is raised here."""
    import torch.multiprocessing as mp

    os.environ.setdefault("MASTER_ADDR", socket.gethostbyname("localhost"))
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(function, args=(ranks, folder), nprocs=ranks)
        return json.loads(Path(folder, "found").read_text())


def ddp(ranks: int) -> dict:
    import torch

    ranks = next(n for n in (8, 4, 2, 1) if n <= ranks)  # equal shares of the samples
    found = spawned(ddp_rank, ranks)
    alone = train(*model_and_data(torch.device("cuda", 0)))
    error = max(abs(a - b) for a, b in zip(found, alone, strict=True))
    why = "" if error < 1e-5 else f"parameters differ by {error:.2g} from those of one process"
    return {"ok": not why, "ranks": ranks, "error": error, "why": why}


def main() -> int:
    try:
        if sys.argv[1] == "facts":
            result = facts()
        elif sys.argv[1] == "ddp":
            result = ddp(int(sys.argv[2]))
        else:
            result = {"ok": True, "time_us": spawned(nccl_rank, int(sys.argv[2]))}
    except Exception as error:  # of torch, of a rank: all are a step that failed
        result = {"ok": False, "why": str(error).strip().splitlines()[-1][:500]}
    print(json.dumps(result))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())

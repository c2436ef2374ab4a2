"""Ranks with a device: forked, as of backend_ranks, with the device of tests/ghost.

The driver's double reads its variables at its first call, in the rank.
"""

import os
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from processes import ROOT

sys.path += [str(ROOT / "tests" / "python" / "backend"), str(ROOT / "tests" / "ghost")]

from backend_ranks import KILLED, init, run_ranks, seconds

__all__ = [
    "BOTH",
    "KILLED",
    "init",
    "load_ghost",
    "meet",
    "needs_ghost",
    "on_host",
    "run_ghosts",
    "run_ranks",
    "seconds",
]

BUILD = Path(os.environ.get("TEST_BUILD", ROOT / "build"))
MINOR = "_".join(torch.__version__.split(".")[:2])
EXTENSION = next((BUILD / "tests").glob(f"_ghost_{MINOR}.*.so"), None)
BOTH = "cpu:ringwood,ghost:ringwood"

needs_ghost = pytest.mark.skipif(
    EXTENSION is None, reason=f"no device of tests/ghost in {BUILD}: CUDA's header is missing"
)


def load_ghost(devices: int):
    """The module `_ghost`, in a process that has not used it yet."""
    import ghost

    return ghost.load(BUILD, devices)


def run_ghosts(
    size: int,
    body,
    *,
    backend: str = BOTH,
    group_timeout_s: float = 60,
    environment: dict[str, str] | None = None,
    with_device_id: bool = False,
    **options,
) -> list:
    """`body(rank, size, device, ghost)` on `size` ranks, each with a device of its own."""

    def begin(rank, size):
        ghost = load_ghost(size)
        os.environ.update(environment or {})
        from ringwood import _autoload

        if "ghost" not in _autoload.DEVICES:  # "ringwood" alone is for these devices, too
            _autoload.DEVICES.append("ghost")
        torch.accelerator.set_device_index(rank)
        dist.init_process_group(
            backend,
            init_method=f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}",
            rank=rank,
            world_size=size,
            timeout=seconds(group_timeout_s),
            device_id=torch.device("ghost", rank) if with_device_id else None,
        )
        return body(rank, size, torch.device("ghost", rank), ghost)

    return run_ranks(size, begin, group=False, **options)


def meet(rank: int, size: int, where: str) -> None:
    """All ranks have come here; their groups have no part in it."""
    store = dist.distributed_c10d._get_default_store()
    store.set(f"{where} {rank}", "")
    store.wait([f"{where} {other}" for other in range(size)])


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """What is there now, on a stream that waits for nothing."""
    with torch.Stream(tensor.device):
        return tensor.cpu()

"""Ringwood, collective communication for PyTorch: init_process_group("ringwood").

Importing this package is not needed where the entry point torch.backends is honoured: torch 2.5 and
newer, unless TORCH_DEVICE_BACKEND_AUTOLOAD=0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._autoload import register

if TYPE_CHECKING:
    from datetime import timedelta

    import torch
    from torch.distributed import ProcessGroup

__all__ = ["empty", "monitored_barrier", "register"]

register()


def empty(*size: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    """An uninitialised CPU tensor that the other ranks of this host can read in place.

    Collectives on it, or on views of it, copy nothing between the ranks of a host. Otherwise it is
    an ordinary tensor, but forked processes (DataLoader workers) must not touch it: they do not
    have its memory.
    """
    import torch

    from ._autoload import _module

    if len(size) == 1 and not isinstance(size[0], int):
        size = tuple(size[0])
    shape = torch.Size(size)
    if any(extent < 0 for extent in shape):
        raise ValueError(f"a tensor of shape {tuple(shape)}")
    dtype = dtype or torch.get_default_dtype()
    return _module().shared_bytes(shape.numel() * dtype.itemsize).view(dtype).view(shape)


def monitored_barrier(group: ProcessGroup | None = None, timeout: timedelta | None = None) -> None:
    """A barrier whose error names the ranks that did not come within `timeout`.

    The default is the group's timeout. torch.distributed.monitored_barrier refuses every backend
    but gloo up to torch 2.13.
    """
    import torch
    import torch.distributed as dist

    group = group or dist.group.WORLD
    options = dist.BarrierOptions()
    if timeout is not None:
        options.timeout = timeout
    group._get_backend(torch.device("cpu")).barrier(options).wait()

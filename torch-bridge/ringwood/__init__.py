"""Ringwood, collective communication for PyTorch: init_process_group("ringwood").

Importing this package is not needed where the entry point torch.backends is honoured: torch 2.5 and
newer, unless TORCH_DEVICE_BACKEND_AUTOLOAD=0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._autoload import register

if TYPE_CHECKING:
    from datetime import timedelta

    from torch.distributed import ProcessGroup

__all__ = ["monitored_barrier", "register"]

register()


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

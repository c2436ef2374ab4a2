"""Ringwood, collective communication for PyTorch: init_process_group("ringwood").

Importing this package is not needed where the entry point torch.backends is honoured: torch 2.5 and
newer, unless TORCH_DEVICE_BACKEND_AUTOLOAD=0.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, overload

from ._autoload import register

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta

    import torch
    from torch.distributed import ProcessGroup

__all__ = [
    "__version__",
    "dump_flight_recorder",
    "empty",
    "high_priority",
    "monitored_barrier",
    "register",
    "share_large_tensors",
]

__version__ = "0.1.0"  # that of meson.build


def _is_command() -> bool:
    """`python -m ringwood` needs no torch: Python says "-m" while it looks for what to run."""
    given = getattr(sys, "argv", [])
    return given[:1] == ["-m"] and sys.orig_argv[-len(given)] in ("ringwood", "-mringwood")


if not _is_command():
    register()


@overload
def empty(*size: int, dtype: torch.dtype | None = None) -> torch.Tensor: ...
@overload
def empty(size: Sequence[int], /, *, dtype: torch.dtype | None = None) -> torch.Tensor: ...
def empty(*size: int | Sequence[int], dtype: torch.dtype | None = None) -> torch.Tensor:
    """An uninitialised CPU tensor that the other ranks of this host can read in place.

    Collectives on it, or on views of it, copy nothing between the ranks of a host. Otherwise it is
    an ordinary tensor, but forked processes (DataLoader workers) must not touch it: they do not
    have its memory. Where there is no such memory, ordinary memory is used, and the log says so.
    """
    from ._autoload import _module

    module = _module()
    import torch

    extents: Any = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    shape = torch.Size(extents)
    if any(extent < 0 for extent in shape):
        raise ValueError(f"a tensor of shape {tuple(shape)}")
    dtype = dtype or torch.get_default_dtype()
    memory: torch.Tensor = module.shared_bytes(shape.numel() * dtype.itemsize)
    return memory.view(dtype).view(shape)


def share_large_tensors(min_bytes: int = 1 << 20) -> None:
    """CPU tensors of at least `min_bytes` that are made from now on lie in shared memory.

    So do those that a script never sees, such as the buckets of DistributedDataParallel, and
    collectives on them copy nothing between the ranks of a host. RINGWOOD_SHARE_TENSORS=1M does the
    same from the first init_process_group on, without a change of the script. Forked processes get
    private copies of all these tensors when they are forked, which costs time and memory.
    """
    from ._autoload import _module

    if min_bytes < 1:
        raise ValueError(f"min_bytes {min_bytes} is not positive")
    _module().share_large_tensors(min_bytes)


@contextmanager
def high_priority() -> Iterator[None]:
    """Collectives that are called within `with high_priority():` pass those of normal priority.

    For small ones that others wait for, while large ones are under way: a norm beside the buckets
    of the gradients. Only what the calling thread calls itself is meant: not what backward() calls,
    which runs in threads of its own, nor sends and receives. Those of one priority keep the order
    of their calls. Can be nested.

    All ranks must do the same: a collective that is of high priority on some only ends the group
    with an error that says so.
    """
    from ._autoload import _module

    prioritize = _module().prioritize
    before = prioritize(True)
    try:
        yield
    finally:
        prioritize(before)


def dump_flight_recorder(prefix: str) -> str:
    """Writes the last calls of this process to `prefix` followed by its rank; returns that name.

    Called on all ranks, with a prefix in one folder: `torchfrtrace FOLDER` then says which rank
    made another call than the others, or did not come. With TORCH_FR_DUMP_TEMP_FILE=prefix every
    rank of a group does it when the group has failed. TORCH_FR_BUFFER_SIZE (2000) calls are kept.
    """
    from ._autoload import _module

    module = _module()
    import torch.distributed as dist

    file = f"{prefix}{dist.get_rank() if dist.is_initialized() else 0}"
    with open(file, "wb") as out:
        out.write(module.dump_fr_trace(calls=True, only_active=False))
    return file


def monitored_barrier(group: ProcessGroup | None = None, timeout: timedelta | None = None) -> None:
    """A barrier whose error names the ranks that did not come within `timeout`.

    The default is the group's timeout. torch.distributed.monitored_barrier refuses every backend
    but gloo up to torch 2.13.
    """
    import torch
    import torch.distributed as dist

    if group is None and not dist.is_initialized():
        raise ValueError(
            "ringwood.monitored_barrier: there is no process group yet; "
            'call torch.distributed.init_process_group("ringwood") first'
        )
    chosen: Any = dist.group.WORLD if group is None else group
    if chosen is dist.GroupMember.NON_GROUP_MEMBER:
        raise ValueError("ringwood.monitored_barrier: this rank is not a member of the group")
    options = dist.BarrierOptions()
    if timeout is not None:
        options.timeout = timeout
    chosen._get_backend(torch.device("cpu")).barrier(options).wait()

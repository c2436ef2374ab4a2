# The extension module (bind.cc). tests/python/install/test_python_package.py compares the two.
from collections.abc import Sequence
from datetime import timedelta

import torch
from torch._C._distributed_c10d import Backend, Store

def create(
    store: Store,
    rank: int,
    size: int,
    timeout: timedelta,
    name: str,
    global_ranks: Sequence[int],
) -> Backend: ...
def shared_bytes(count: int) -> torch.Tensor: ...
def share_large_tensors(least: int) -> None: ...
def prioritize(high: bool) -> bool: ...
def dump_fr_trace(calls: bool, only_active: bool) -> bytes: ...
def leave_all() -> None: ...

"""The device "ghost" (README.md): load() makes it known to torch, once in a process."""

import contextlib
import importlib
import os
import sys
import types
from pathlib import Path

import torch


def load(build: Path, devices: int):
    """Returns the module `_ghost` of a build. Not before a fork: the driver and its threads come
    with it."""
    if "_ghost" in sys.modules:
        return sys.modules["_ghost"]
    sys.path.insert(0, str(build / "tests"))
    driver = str(build / "tests" / "libcuda.so.1")
    os.environ.update(GHOST_DRIVER=driver, RINGWOOD_CUDA_LIBRARY=driver)
    os.environ["FAKE_CUDA_DEVICES"] = str(devices)
    torch.utils.rename_privateuse1_backend("ghost")
    minor = "_".join(torch.__version__.split(".")[:2])
    _ghost = importlib.import_module(f"_ghost_{minor}")
    sys.modules["_ghost"] = _ghost
    torch._register_device_module("ghost", _device_module(_ghost))
    torch.utils.generate_methods_for_privateuse1_backend()
    return _ghost


def _device_module(_ghost) -> types.ModuleType:
    """torch.ghost, with what torch asks of torch.cuda."""
    module = types.ModuleType("torch.ghost")
    module.is_available = lambda: True
    module.is_initialized = lambda: True
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = lambda seed: None
    module.get_rng_state = lambda device=None: torch.get_rng_state()  # operations are the CPU's
    module.set_rng_state = lambda state, device=None: torch.set_rng_state(state)
    module.device_count = _ghost.device_count
    module.current_device = torch.accelerator.current_device_index
    module.set_device = torch.accelerator.set_device_index
    module.current_stream = torch.accelerator.current_stream
    module.synchronize = torch.accelerator.synchronize
    module.Stream = lambda device=None, priority=0: torch.Stream(device or "ghost")
    module.Event = lambda **options: torch.Event("ghost", **options)
    module.stream = lambda stream: stream if stream is not None else contextlib.nullcontext()
    return module

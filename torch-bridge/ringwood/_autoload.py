"""Makes the name "ringwood" known to torch.distributed, without being imported by the user.

register() is what the entry points call: it runs inside every `import torch` of the environment, so
it only notes down a function, never opens the extension module and never raises.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import timedelta
    from types import ModuleType

    from torch._C._distributed_c10d import Backend

NAME = "ringwood"
DEVICES = ["cpu", "cuda"]


def register() -> None:
    """Registers the backend. Can be called any number of times."""
    try:
        import torch.distributed as dist

        if not dist.is_available() or hasattr(dist.Backend, NAME.upper()):
            return
        dist.Backend.register_backend(NAME, _create, extended_api=True, devices=DEVICES)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            logging.getLogger(NAME).warning("the backend could not be registered: %s", error)
    except Exception as error:
        logging.getLogger(NAME).warning("the backend could not be registered: %s", error)


def _create(options: Any, pg_options: Any) -> Backend:
    """Called by init_process_group and new_group on every rank of the group."""
    _refuse_options(pg_options, options.timeout)
    made: Backend = _module().create(
        store=options.store,
        rank=options.group_rank,
        size=options.group_size,
        timeout=options.timeout,
        name=options.group_id or "world",
        global_ranks=list(options.global_ranks_in_group),
    )
    return made


def _refuse_options(pg_options: Any, timeout: timedelta) -> None:
    """Raises for options that would have no effect.

    Those of a backend that shares the group ("cpu:ringwood,cuda:nccl") come here, too, and are
    nobody's mistake: torch hands the same object to all, and makes one for nccl by itself.
    """
    if pg_options is None or getattr(pg_options, "backend", None) in ("nccl", "xccl", "ucc"):
        return
    if getattr(pg_options, "backend", None) != NAME:
        raise TypeError(
            f"ringwood takes no pg_options, and got {type(pg_options).__qualname__}: "
            "leave them out; the timeout is an argument of init_process_group and new_group, and "
            "everything else a variable of the environment (`ringwood env` lists them)"
        )
    if pg_options._timeout != timeout:
        raise ValueError(
            f"pg_options has a timeout of {pg_options._timeout}, and the group one of {timeout}: "
            "give the timeout as an argument of init_process_group or new_group"
        )


@functools.cache
def _module() -> ModuleType:
    """The extension module for the torch that is installed."""
    import importlib

    from . import _built_for

    fitting = ", ".join(_built_for.TORCH)
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            f"ringwood needs torch for this, and there is none; it was built for torch {fitting}",
            name="torch",
        ) from None

    minor = ".".join(torch.__version__.split(".")[:2])
    if minor not in _built_for.TORCH:
        raise RuntimeError(
            f"ringwood was built for torch {fitting}, found {minor}: install one of these, or "
            "build it for this one, in its sources: "
            "pip install --no-build-isolation --no-deps --force-reinstall ."
        )

    import atexit

    from . import _flight

    module = importlib.import_module(f"._C_{minor.replace('.', '_')}", __package__)
    _flight.join_torch(module)
    # While Python can still run callbacks; afterwards a thread that asks for the GIL never returns.
    atexit.register(module.leave_all)
    return module

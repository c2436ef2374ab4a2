"""Ranks of a group as forked children of the test: torch is imported once for all tests.

A body is a function of (rank, size); it runs in every rank with the default group made, and what
it returns comes back as a list over the ranks. An exception in a rank fails the test with its
traceback, and a rank that hangs with the stacks of all its threads.
"""

import contextlib
import datetime
import faulthandler
import os
import pickle
import select
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from processes import NEVER_S, PATIENCE_S, ROOT, held_port

BACKEND = os.environ.get("BACKEND", "ringwood")
# Where the tensors of all bodies are: "cpu", "ghost" (tests/ghost) or "cuda".
DEVICE = os.environ.get("DEVICE", "cpu")
KILLED = object()


@dataclass
class Rank:
    pid: int
    pipe: int
    log: Path
    data: bytes = b""
    status: int | None = None

    def report(self, rank: int) -> str:
        return f"--- rank {rank} (status {self.status})\n{self.log.read_text(errors='replace')}"


def seconds(count: float) -> datetime.timedelta:
    return datetime.timedelta(seconds=count)


def init(rank: int, size: int, port: int, timeout_s: float = NEVER_S, **options) -> None:
    dist.init_process_group(
        BACKEND,
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=size,
        timeout=seconds(timeout_s),
        **options,
    )


def new_group_everywhere(*arguments, **options):
    """As dist.new_group(), on all ranks of the default group; none of them is inside it on return.
    An error that ends the group would be raised from there, too, on a rank that comes late."""
    group = dist.new_group(*arguments, **options)
    dist.barrier()  # of the default group, which lives on
    return group


def normal(generator: torch.Generator, *shape: int) -> torch.Tensor:
    """The same numbers on every device: a generator is of one, of the CPU."""
    return torch.randn(*shape, generator=generator, device="cpu").to(torch.get_default_device())


def take_device(rank: int, size: int) -> None:
    """Makes tensors on a device of its own, where torch is not told otherwise."""
    if DEVICE == "ghost":
        sys.path.append(str(ROOT / "tests" / "python" / "device"))
        from ghost_ranks import load_ghost
        from ringwood import _autoload

        load_ghost(size)
        if DEVICE not in _autoload.DEVICES:  # which torch keeps, and asks
            _autoload.DEVICES.append(DEVICE)
    # Bodies expect errors of wait(), and look at tensors after it.
    os.environ.setdefault("RINGWOOD_BLOCKING_WAIT", "1")
    torch.accelerator.set_device_index(rank % torch.accelerator.device_count())
    torch.set_default_device(f"{DEVICE}:{torch.accelerator.current_device_index()}")


def run_ranks(
    size: int,
    body,
    *,
    timeout_s: float = PATIENCE_S,
    group: bool = True,
    group_timeout_s: float = NEVER_S,
    killed=(),
) -> list:
    """Runs `body` in `size` ranks. `group`: with a default group. `killed`: ranks that may die."""
    port = held_port()
    os.environ["MASTER_PORT"] = str(port)

    def begin(rank: int):
        if DEVICE != "cpu":
            take_device(rank, size)
        if group:
            init(rank, size, port, group_timeout_s)
        return body(rank, size)

    all_done = os.pipe()
    with tempfile.TemporaryDirectory(prefix="ranks.") as folder:
        ranks = [start(begin, rank, Path(folder), all_done) for rank in range(size)]
        os.close(all_done[0])
        hung = collect(ranks, time.monotonic() + timeout_s, all_done[1])
        report = "".join(one.report(rank) for rank, one in enumerate(ranks))
        assert not hung, f"ranks {hung} hang after {timeout_s} s\n{report}"
        return [result(one, rank in killed, report) for rank, one in enumerate(ranks)]


def start(begin, rank: int, folder: Path, all_done: tuple[int, int]) -> Rank:
    log = folder / f"{rank}.log"
    ours, theirs = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        os.close(theirs)
        return Rank(pid, ours, log)
    try:
        output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(all_done[1])
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        faulthandler.enable()
        faulthandler.register(signal.SIGUSR1)
        torch.set_num_threads(1)
        answer = pickle.dumps(begin(rank))
        with os.fdopen(theirs, "wb") as pipe:
            pipe.write(answer)
        os.read(all_done[0], 1)  # rank 0 serves the store, so it must not go first
        if dist.is_initialized():
            dist.destroy_process_group()
        status = 0
    except BaseException:
        traceback.print_exc()
        status = 1
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def collect(ranks: list[Rank], deadline: float, all_done: int) -> list[int]:
    """Reads what the ranks answer, lets them end, and returns the numbers of those that hang."""
    open_ranks = {one.pipe: one for one in ranks}
    while open_ranks and (left := deadline - time.monotonic()) > 0:
        for pipe in select.select(list(open_ranks), [], [], left)[0]:
            data = os.read(pipe, 1 << 16)
            open_ranks[pipe].data += data
            if not data:
                del open_ranks[pipe]
    os.close(all_done)
    for one in ranks:
        os.close(one.pipe)
    hung = []
    for rank, one in enumerate(ranks):
        if not wait_for(one, deadline):
            hung.append(rank)
            os.kill(one.pid, signal.SIGUSR1)
    if hung:
        time.sleep(0.5)  # there is no event for "the handler has written"
    for rank in hung:
        os.kill(ranks[rank].pid, signal.SIGKILL)
        wait_for(ranks[rank], time.monotonic() + PATIENCE_S)
    return hung


def wait_for(one: Rank, deadline: float) -> bool:
    while True:
        done, status = os.waitpid(one.pid, os.WNOHANG)
        if done:
            one.status = os.waitstatus_to_exitcode(status)
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)


def result(one: Rank, may_die: bool, report: str):
    if may_die and one.status != 0:
        return KILLED
    assert one.status == 0, report
    return pickle.loads(one.data)

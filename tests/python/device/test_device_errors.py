"""What goes wrong on devices is said on every rank, with the culprit's name."""

import ctypes
import os
import signal
import time

import pytest
import torch
import torch.distributed as dist
from ghost_ranks import (
    BOTH,
    DRIVER,
    KILLED,
    load_ghost,
    needs_ghost,
    run_ghosts,
    run_ranks,
    seconds,
)

pytestmark = needs_ghost


def first_error(call, most_s: float = 30) -> str:
    """Repeats the call, which fails from the moment on at which the group ends."""
    deadline = time.monotonic() + most_s
    while time.monotonic() < deadline:
        try:
            call()
        except dist.DistBackendError as error:
            return str(error)
        time.sleep(0.01)
    raise AssertionError("no error")


def test_a_killed_rank_is_named():
    def body(rank, size, device, ghost):
        x = torch.ones(1000, device=device)
        dist.all_reduce(x)
        torch.accelerator.synchronize()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        work = dist.all_reduce(x, async_op=True)
        with pytest.raises(dist.DistBackendError) as caught:
            work.wait(seconds(30))
        assert not work.is_success()
        return [str(caught.value), first_error(lambda: dist.all_reduce(x)), first_error(work.wait)]

    zero, killed, two = run_ghosts(3, body, killed=[1])
    assert killed is KILLED
    for errors in (zero, two):
        for error in errors:
            assert "peer 1" in error or "rank 1" in error, error


def test_a_mismatch_is_named():
    def body(rank, size, device, ghost):
        x = torch.ones(1000, device=device)
        dist.all_reduce(x)
        y = torch.zeros(size * 1000, device=device)
        torch.accelerator.synchronize()

        def call():
            if rank == 0:
                dist.all_gather_into_tensor(y, x)
            else:
                dist.all_reduce(y)

        error = first_error(call)
        torch.accelerator.synchronize()
        assert x.cpu()[0] == size
        assert y.cpu()[0] == 0  # nothing was written
        return error

    for error in run_ghosts(2, body):
        assert "calls all_" in error, error


def test_what_is_not_supported_says_what_to_do():
    def body(rank, size, device, ghost):
        x = torch.ones(6, device=device)
        dist.all_reduce(x)
        with pytest.raises(RuntimeError, match="all tensors have to be on ghost:"):
            dist.all_gather([torch.ones(6)] * size, x)
        dist.barrier()
        parts = [torch.ones(2 + i, device=device) for i in range(size)]
        refused = (
            lambda: dist.send(x, 1 - rank),
            lambda: dist.recv(x, 1 - rank),
            lambda: dist.all_to_all_single(x, x.clone(), [2, 4], [2, 4]),
            lambda: dist.all_gather(parts, x[:2]),
        )
        for call in refused:
            with pytest.raises(RuntimeError, match="to the CPU"):
                call()
        return True

    assert run_ghosts(2, body) == [True, True]


def test_after_the_end_calls_say_so():
    def body(rank, size, device, ghost):
        x = torch.ones(6, device=device)
        work = dist.all_reduce(x, async_op=True)
        group = dist.group.WORLD
        dist.destroy_process_group()
        assert work.wait()
        assert x.cpu()[0] == size
        with pytest.raises(RuntimeError, match="shut down"):
            group._get_backend(device).allreduce([x])

    run_ghosts(2, body)


def a_driver_is_there() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.mark.skipif(a_driver_is_there(), reason="this machine has NVIDIA's driver")
def test_without_a_driver(tmp_path):
    """The device is there, and the library that the product looks for is not."""
    other = tmp_path / "libother.so"  # under a name of its own, which the product does not know
    other.write_bytes(DRIVER.read_bytes().replace(b"libcuda.so.1", b"libothe.so.1"))

    def body(rank, size):
        load_ghost(size, other)
        dist.init_process_group(
            BOTH,
            init_method=f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}",
            rank=rank,
            world_size=size,
        )
        errors = []
        for _ in range(2):
            with pytest.raises(NotImplementedError) as caught:
                dist.all_reduce(torch.ones(4, device="ghost:0"))
            errors.append(str(caught.value))
            x = torch.ones(4)
            dist.all_reduce(x)  # the CPU needs none
            assert x[0] == size
        return errors

    for errors in run_ranks(2, body, group=False):
        for error in errors:
            assert "install NVIDIA's driver" in error, error
            assert "move the tensors to the CPU" in error, error

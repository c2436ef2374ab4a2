"""What goes wrong on devices is said on every rank, with the culprit's name."""

import contextlib
import os
import re
import signal
from pathlib import Path

import pytest
import ringwood
import torch
import torch.distributed as dist
from ghost_ranks import KILLED, meet, needs_ghost, run_ghosts
from torch._C._distributed_c10d import ErrorType, _ProcessGroupWrapper

pytestmark = needs_ghost


def backend(device):
    return dist.group.WORLD._get_backend(device)


def error_of(device) -> ErrorType:
    """torch 2.13 asks a backend for its error through its wrapper for debugging only."""
    gloo = dist.ProcessGroupGloo(dist.HashStore(), 0, 1)
    return _ProcessGroupWrapper(backend(device), gloo).get_error()


def test_a_killed_rank_is_named():
    def body(rank, size, device, ghost):
        x = torch.ones(1000, device=device)
        dist.all_reduce(x)
        torch.accelerator.synchronize()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        errors = []
        with pytest.raises(dist.DistBackendError) as caught:
            dist.all_reduce(x, async_op=True).wait(dist.default_pg_timeout)
        errors.append(str(caught.value))
        with pytest.raises(dist.DistBackendError) as caught:
            dist.all_reduce(x)
        return [*errors, str(caught.value)]

    zero, killed, two = run_ghosts(3, body, killed=[1])
    assert killed is KILLED
    for errors in (zero, two):
        for error in errors:
            assert "peer 1" in error or "rank 1" in error, error


class TooEarlyError(Exception):
    """The call itself has raised what was to come after it."""


def differing(rank, size, device, ghost):
    """A call that has failed after its wait() has returned, and what it was to change."""
    x = torch.ones(1000 + rank, device=device)
    dist.all_reduce(torch.ones(8, device=device))
    torch.accelerator.synchronize()
    ghost.close_gate()
    try:
        work = dist.all_reduce(x, async_op=True)
        work.wait()
    except dist.DistBackendError as error:
        raise TooEarlyError from error
    finally:
        meet(rank, size, "waited")
        ghost.open_gate()
    torch.accelerator.synchronize()
    assert (x.cpu() == 1).all()  # nothing was written
    return work


def run_differing(body) -> list:
    """In two ranks. The ranks compare their calls while the gates are closed, so the later one may
    be told before its call returns, if it was held up in it: then once more."""

    def guarded(*place):
        try:
            return body(*place)
        except TooEarlyError:
            return TooEarlyError

    for _attempt in range(5):
        results = run_ghosts(2, guarded)
        if TooEarlyError not in results:
            return results
    pytest.fail("a rank was told before its call returned, five times")


def test_an_error_after_wait_is_raised_by_the_next_call():
    def body(rank, size, device, ghost):
        work = differing(rank, size, device, ghost)
        with pytest.raises(dist.DistBackendError) as caught:
            dist.all_reduce(torch.ones(8, device=device), async_op=True)
        with pytest.raises(dist.DistBackendError):
            work.wait()
        assert work.is_completed()
        assert not work.is_success()
        dist.destroy_process_group()  # has been raised
        return str(caught.value)

    for error in run_differing(body):
        assert "1000, sum, in memory of a device" in error, error
        assert "1001, sum, in memory of a device" in error, error


def test_an_error_that_nobody_saw_is_raised_at_the_end():
    def body(rank, size, device, ghost):
        differing(rank, size, device, ghost)
        with pytest.raises(dist.DistBackendError, match="1001, sum"):
            dist.destroy_process_group()

    run_differing(body)


def test_an_error_that_a_call_on_the_cpu_raised_is_not_raised_again():
    def body(rank, size, device, ghost):
        differing(rank, size, device, ghost)
        with pytest.raises(dist.DistBackendError, match="1001, sum"):
            dist.barrier()
        dist.destroy_process_group()
        assert not dist.is_initialized()

    run_differing(body)


def test_an_abort_is_not_raised_at_the_end():
    def body(rank, size, device, ghost):
        x = torch.ones(8, device=device)
        dist.all_reduce(x)
        torch.accelerator.synchronize()
        meet(rank, size, "reduced")
        if rank == 0:
            dist.all_reduce(x, async_op=True)
            backend(device).abort()
            dist.destroy_process_group()
        else:  # to this rank it is an error, if it hears of it
            with contextlib.suppress(dist.DistBackendError):
                dist.destroy_process_group()

    run_ghosts(2, body)


def test_an_error_that_nobody_saw_is_logged_where_nobody_ends_the_group():
    def body(rank, size, device, ghost):
        differing(rank, size, device, ghost)
        ringwood._autoload._module().leave_all()
        return Path("/proc/self/fd/2").read_text()  # the log of the rank

    for log in run_differing(body):
        assert re.search(r"a call on a device has failed: .*1001, sum", log), log


def test_the_group_knows_its_error():
    def body(rank, size, device, ghost):
        assert error_of(device) == ErrorType.SUCCESS
        work = differing(rank, size, device, ghost)
        assert error_of(device) == ErrorType.REMOTE_ERROR
        with pytest.raises(dist.DistBackendError):
            work.wait()

    run_differing(body)


def test_a_device_on_one_rank_and_the_cpu_on_another():
    def body(rank, size, device, ghost):
        x = torch.ones(8, device=device if rank == 0 else "cpu")
        with pytest.raises(dist.DistBackendError) as caught:
            dist.all_reduce(x, async_op=True).wait(dist.default_pg_timeout)
        assert (x.cpu() == 1).all()
        return str(caught.value)

    for error in run_ghosts(2, body):
        assert "in memory of a device" in error, error


MISTAKES = {
    "cpu among": "tensors on ghost:. and on cpu: a call is on one device",
    "of another device": "a call is on one device",
    "of another accelerator": "unsupported device type meta: move the tensors to the CPU",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_change_nothing(mistake):
    def make(rank, size, device):
        x = torch.ones(6, device=device)
        if mistake == "cpu among":
            dist.all_gather([torch.ones(6)] * size, x)
        elif mistake == "of another device":
            other = torch.device("ghost", (device.index + 1) % size)
            dist.all_gather([torch.ones(6, device=other)] * size, x)
        else:
            backend(device).allreduce([torch.ones(6, device="meta")])

    def body(rank, size, device, ghost):
        with pytest.raises(RuntimeError, match=MISTAKES[mistake]):
            make(rank, size, device)
        x = torch.ones(6, device=device)
        dist.all_reduce(x)
        assert x.cpu()[0] == size

    run_ghosts(2, body)


@pytest.mark.parametrize("blocking", [True, False])
def test_a_stream_that_is_captured_is_refused(blocking):
    def body(rank, size, device, ghost):
        x = torch.ones(6, device=device)
        dist.all_reduce(x)
        torch.accelerator.synchronize()
        with torch.Stream(device):
            ghost.begin_capture()
            with pytest.raises(NotImplementedError, match="captured into a CUDA graph"):
                dist.all_reduce(x, async_op=not blocking)
            ghost.end_capture()  # was not disturbed
        dist.all_reduce(x)
        assert x.cpu()[0] == 1

    run_ghosts(1, body)


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


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("RINGWOOD_CUDA_LIBRARY", "/nowhere/libcuda.so.1", "install NVIDIA's driver"),
        ("RINGWOOD_CUDA", "0", "RINGWOOD_CUDA=0"),
    ],
)
def test_without_a_driver(variable, value, said):
    """The device is there, and what the product needs of it is not; the CPU needs none."""

    def body(rank, size, device, ghost):
        x = torch.ones(4)
        dist.all_reduce(x)
        assert x[0] == size
        with pytest.raises((NotImplementedError, dist.DistBackendError)) as caught:
            dist.all_reduce(torch.ones(4, device=device))
        with pytest.raises(dist.DistBackendError):  # others may have been waiting
            dist.all_reduce(x)
        return str(caught.value)

    for error in run_ghosts(2, body, environment={variable: value}):
        assert said in error, error


def test_a_forked_child_is_refused_before_it_touches_the_device():
    def body(rank, size, device, ghost):
        x = torch.ones(4, device=device)
        dist.all_reduce(x)
        torch.accelerator.synchronize()
        child = os.fork()
        if child == 0:
            try:
                with pytest.raises(RuntimeError, match="forked after the group was made"):
                    dist.all_reduce(x)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        dist.barrier()

    run_ghosts(2, body)

"""Calls on a device return at once, and order streams: what NCCL's users rely on."""

import time

import pytest
import torch
import torch.distributed as dist
from ghost_ranks import needs_ghost, on_host, run_ghosts, seconds

pytestmark = needs_ghost


def warm(device) -> torch.Tensor:
    """A tensor, when the device's group and the program of its size are made."""
    x = torch.ones(1000, device=device)
    dist.all_reduce(x)
    x.fill_(1)
    torch.accelerator.synchronize()
    return x


def test_returns_before_it_is_done():
    def body(rank, size, device, ghost):
        x = warm(device)
        ghost.close_gate()
        work = dist.all_reduce(x, async_op=True)
        assert not work.is_completed()
        assert on_host(x)[0] == 1  # nobody has waited: the old values
        begin = time.monotonic()
        work.wait()
        assert time.monotonic() - begin < 1  # the stream waits, not the host
        assert on_host(x)[0] == 1
        ghost.open_gate()
        assert x.cpu()[0] == size  # the current stream has waited
        assert work.is_completed()
        assert work.result()[0].data_ptr() == x.data_ptr()

    run_ghosts(2, body)


def test_wait_is_for_the_stream_that_is_current():
    def body(rank, size, device, ghost):
        x = warm(device)
        ghost.close_gate()
        work = dist.all_reduce(x, async_op=True)
        side = torch.Stream(device)
        with side:
            work.wait()
        ghost.open_gate()
        with side:
            assert x.cpu()[0] == size

    run_ghosts(2, body)


def test_a_synchronous_call_is_ordered_on_its_stream():
    def body(rank, size, device, ghost):
        x = warm(device)
        begin = time.monotonic()
        ghost.close_gate()
        dist.all_reduce(x)
        assert time.monotonic() - begin < 1
        assert on_host(x)[0] == 1
        ghost.open_gate()
        assert x.cpu()[0] == size

    run_ghosts(2, body)


def test_futures_run_what_waits():
    def body(rank, size, device, ghost):
        x = warm(device)
        ghost.close_gate()
        future = dist.all_reduce(x, async_op=True).get_future()
        seen = []

        def twice(done):
            seen.append(torch.accelerator.current_stream())
            copy = torch.empty_like(done.value()[0])
            copy.copy_(done.value()[0])
            return copy

        then = future.then(twice)
        assert seen and seen[0] != torch.accelerator.current_stream()
        ghost.open_gate()
        assert then.wait().cpu()[0] == size
        assert x.cpu()[0] == size

    run_ghosts(2, body)


def test_waits_with_a_timeout_are_of_the_host():
    def body(rank, size, device, ghost):
        x = warm(device)
        work = dist.all_reduce(x, async_op=True)
        work.wait(seconds(30))
        assert on_host(x)[0] == size
        ghost.close_gate()
        work = dist.all_reduce(x, async_op=True)
        with pytest.raises(dist.DistBackendError, match=r"all_reduce on ghost:\d has not ended"):
            work.wait(seconds(0.2))
        ghost.open_gate()

    run_ghosts(2, body)


def test_memory_is_kept_for_the_call():
    def body(rank, size, device, ghost):
        warm(device)
        recorded = ghost.recorded_streams()
        x = torch.ones(1000, device=device)
        at = x.data_ptr()
        torch.accelerator.synchronize()
        ghost.close_gate()
        work = dist.all_reduce(x, async_op=True)
        assert ghost.recorded_streams() > recorded
        del x, work
        other = torch.empty(1000, device=device)
        assert other.data_ptr() != at  # the device may still write there
        ghost.open_gate()
        dist.barrier()
        torch.accelerator.synchronize()
        again = torch.empty(1000, device=device)
        assert again.data_ptr() == at

    run_ghosts(2, body)


def test_a_barrier_waits_for_the_device():
    def body(rank, size, device, ghost):
        x = warm(device)
        work = dist.all_reduce(x, async_op=True)
        dist.barrier(device_ids=[rank])
        assert work.is_completed()
        assert on_host(x)[0] == size

    run_ghosts(2, body)


def test_calls_of_several_streams_do_not_meet():
    def body(rank, size, device, ghost):
        warm(device)
        tensors, streams = [], [torch.Stream(device) for _ in range(3)]
        for turn in range(12):
            with streams[turn % 3]:
                x = torch.full((1000,), turn + 1.0, device=device)
                dist.all_reduce(x, async_op=turn % 2 == 0)
                tensors.append(x)
        dist.barrier()
        torch.accelerator.synchronize()
        assert [x.cpu()[0].item() for x in tensors] == [size * (t + 1.0) for t in range(12)]

    run_ghosts(2, body)

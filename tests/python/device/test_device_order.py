"""Calls on a device return at once, and order streams: what users of NCCL rely on.

Nothing here is timed: a gate holds a stream up, and what is seen before it opens was not waited
for.
"""

import contextlib
import threading
import time

import pytest
import torch
import torch.distributed as dist
from ghost_ranks import needs_ghost, on_host, run_ghosts

pytestmark = needs_ghost


def warm(device) -> torch.Tensor:
    """A tensor, when the device is in use by the group."""
    x = torch.ones(1000, device=device)
    dist.all_reduce(x)
    x.fill_(1)
    torch.accelerator.synchronize()
    return x


def test_a_call_and_its_wait_return_before_it_is_done():
    def body(rank, size, device, ghost):
        x = warm(device)
        ghost.close_gate()
        work = dist.all_reduce(x, async_op=True)
        assert not work.is_completed()
        assert on_host(x)[0] == 1  # nobody has waited: the old values
        work.wait()
        assert on_host(x)[0] == 1
        ghost.open_gate()
        assert x.cpu()[0] == size  # the current stream has waited
        assert work.is_completed()
        assert work.result()[0].data_ptr() == x.data_ptr()

    run_ghosts(2, body)


def test_who_does_not_wait_reads_what_was_there():
    def body(rank, size, device, ghost):
        x = warm(device)
        group_of_others = torch.Stream(device)
        with group_of_others:
            ghost.close_gate()
            work = dist.all_reduce(x, async_op=True)
        assert x.cpu()[0] == 1  # the current stream waits for nothing
        work.wait()
        ghost.open_gate()
        assert x.cpu()[0] == size

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
        ghost.close_gate()
        dist.all_reduce(x)
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

        def copied(done):
            seen.append(torch.accelerator.current_stream())
            copy = torch.empty_like(done.value()[0])
            copy.copy_(done.value()[0])
            return copy

        then = future.then(copied)
        assert seen and seen[0] != torch.accelerator.current_stream()
        ghost.open_gate()
        assert then.wait().cpu()[0] == size
        assert x.cpu()[0] == size

    run_ghosts(2, body)


@contextlib.contextmanager
def gate_that_another_thread_opens(ghost):
    """Gives a list, which has an element once the gate is open: who waits on the host finds it."""
    opened = []

    def open_it():
        time.sleep(0.2)  # for who does not wait to go on
        opened.append(True)
        ghost.open_gate()

    ghost.close_gate()
    thread = threading.Thread(target=open_it)
    thread.start()
    yield opened
    thread.join()


WAITS_OF_THE_HOST = {
    "wait(timeout)": lambda x: dist.all_reduce(x, async_op=True).wait(dist.default_pg_timeout),
    "barrier(device_ids)": lambda x: dist.barrier(device_ids=[x.device.index]),
    "barrier, asynchronous": lambda x: dist.barrier(
        device_ids=[x.device.index], async_op=True
    ).wait(),
}


@pytest.mark.parametrize("wait", WAITS_OF_THE_HOST)
def test_waits_of_the_host(wait):
    def body(rank, size, device, ghost):
        x = warm(device)
        with gate_that_another_thread_opens(ghost) as opened:
            WAITS_OF_THE_HOST[wait](x)
            assert opened

    run_ghosts(2, body)


def test_waits_are_of_the_host_where_it_is_asked_for():
    def body(rank, size, device, ghost):
        x = warm(device)
        with gate_that_another_thread_opens(ghost) as opened:
            dist.all_reduce(x, async_op=True).wait()
            assert opened
        assert on_host(x)[0] == size

    run_ghosts(2, body, environment={"TORCH_NCCL_BLOCKING_WAIT": "1"})


def test_a_barrier_of_a_group_with_a_device_is_for_its_stream():
    def body(rank, size, device, ghost):
        warm(device)
        with gate_that_another_thread_opens(ghost) as opened:
            dist.barrier()
            assert opened

    run_ghosts(2, body, with_device_id=True)


def test_an_asynchronous_barrier_holds_no_stream_back():
    def body(rank, size, device, ghost):
        x = warm(device)
        if rank == 0:
            barrier = dist.barrier(device_ids=[rank], async_op=True)
            assert x.cpu()[0] == 1  # before the other rank has come
            dist.send(torch.ones(1), 1)
            barrier.wait()
        else:
            dist.recv(torch.ones(1), 0)
            dist.barrier(device_ids=[rank])

    run_ghosts(2, body)


def test_the_future_of_a_send_is_behind_its_copy():
    def body(rank, size, device, ghost):
        x = warm(device)
        if rank == 0:
            zeros = torch.zeros_like(x)
            torch.accelerator.synchronize()
            side = torch.Stream(device)
            ghost.close_gate()
            future = dist.isend(x, 1).get_future()
            with side:
                future.wait()
                x.copy_(zeros)
            ghost.open_gate()
        else:
            x.fill_(5)
            dist.recv(x, 0)
            assert x.cpu().eq(1).all()

    run_ghosts(2, body)


def test_a_send_is_complete_when_its_tensor_may_be_changed():
    def body(rank, size, device, ghost):
        x = torch.ones(100_000, device=device)
        if rank == 0:
            work = dist.isend(x, 1)
            while not work.is_completed():
                time.sleep(0.001)
            x.fill_(7)
            dist.send(torch.ones(1), 1, tag=1)
        else:
            dist.recv(torch.ones(1), 0, tag=1)  # it is received only then
            x.fill_(5)
            dist.recv(x, 0)
            assert x.cpu().eq(1).all()

    run_ghosts(2, body)


def test_other_threads_run_while_a_message_from_any_rank_is_waited_for():
    def body(rank, size, device, ghost):
        x = warm(device)
        if rank == 0:
            sender = threading.Thread(target=lambda: dist.send(torch.ones(1), 1))
            time.sleep(0.1)
            sender.start()
            assert dist.recv(x) == 1
            sender.join()
        else:
            dist.recv(torch.ones(1), 0)  # of the other thread
            dist.send(x, 0)

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


def test_messages_of_a_pair_cross():
    """Neither holds the other's stream up, also where both receive first."""

    def body(rank, size, device, ghost):
        mine, theirs = torch.full((5000,), rank + 1.0, device=device), warm(device)
        other = 1 - rank
        theirs = torch.empty_like(mine)
        received = dist.irecv(theirs, other)
        sent = dist.isend(mine, other)
        received.wait()
        assert theirs.cpu()[0] == other + 1
        sent.wait()
        mine.fill_(0)  # behind the copy
        works = dist.batch_isend_irecv(
            [dist.P2POp(dist.irecv, theirs, other), dist.P2POp(dist.isend, mine, other)]
        )
        for work in works:
            work.wait()
        assert theirs.cpu()[0] == 0
        strided = torch.zeros(10, 2, device=device)[:, 0]
        if rank == 0:
            dist.send(torch.arange(20.0, device=device)[::2], 1)
        else:
            assert dist.recv(strided) == 0  # from any rank
            assert strided.cpu().tolist() == [2.0 * i for i in range(10)]

    run_ghosts(2, body)


def test_what_comes_from_one_rank_does_not_wait_for_another():
    def body(rank, size, device, ghost):
        warm(device)
        a, b = torch.zeros(10, device=device), torch.zeros(10, device=device)
        if rank == 0:
            first, second = dist.irecv(a, 1), dist.irecv(b, 2)
            second.wait()
            assert b.cpu()[0] == 2
            dist.send(b, 1)
            first.wait()
            assert a.cpu()[0] == 1
        elif rank == 1:
            dist.recv(a, 0)  # only then
            assert a.cpu()[0] == 2
            dist.send(torch.ones(10, device=device), 0)
        else:
            dist.send(torch.full((10,), 2.0, device=device), 0)

    run_ghosts(3, body)


def test_copies_of_strided_tensors_are_in_the_order_of_the_stream():
    def body(rank, size, device, ghost):
        warm(device)
        base, ones = torch.zeros(100, 2, device=device), torch.ones(100, 2, device=device)
        result = torch.zeros(100, 2, device=device)
        torch.accelerator.synchronize()
        ghost.close_gate()
        base.copy_(ones)
        work = dist.all_reduce(base[:, 0], async_op=True)
        work.wait()
        result.copy_(base)
        assert on_host(base).sum() == 0
        ghost.open_gate()
        assert result.cpu()[5].tolist() == [size, 1.0]

    run_ghosts(2, body)

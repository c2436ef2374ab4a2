"""The Work that a call returns: futures, callbacks, overlap, point to point, memory."""

import gc
import os
import resource
import threading
import time
import weakref

import pytest
import torch
import torch.distributed as dist
from backend_ranks import run_ranks, seconds
from processes import PATIENCE_S


def test_future_holds_the_outputs():
    def body(rank, size):
        tensor = torch.full((3,), rank + 1.0)
        work = dist.all_reduce(tensor, async_op=True)
        value = work.get_future().wait()
        assert isinstance(value, list)
        assert value[0].data_ptr() == tensor.data_ptr()
        assert work.is_completed()
        assert work.is_success()
        assert work.result()[0].tolist() == [3.0] * 3
        gathered = [torch.zeros(1) for _ in range(size)]
        work = dist.all_gather(gathered, torch.full((1,), float(rank)), async_op=True)
        assert torch.cat(work.get_future().wait()).tolist() == [0.0, 1.0]
        late = dist.barrier(async_op=True)
        late.wait()
        assert late.get_future().done()  # asked for after the end
        assert late.get_future().value() == []

    run_ranks(2, body)


def test_future_is_complete_after_wait():
    def body(rank, size):
        for _ in range(300):
            work = dist.all_reduce(torch.ones(3), async_op=True)
            future = work.get_future()
            work.wait()
            assert future.value()[0].tolist() == [2.0] * 3

    run_ranks(2, body)


def test_future_of_a_failed_call_raises_what_wait_raises():
    def body(rank, size):
        work = dist.all_reduce(torch.ones(3 + rank), async_op=True)
        future = work.get_future()
        with pytest.raises(dist.DistBackendError, match="float32 x 3") as by_wait:
            work.wait()
        with pytest.raises(RuntimeError, match="float32 x 3"):
            future.wait()
        assert work.is_completed()
        assert not work.is_success()
        return str(by_wait.value)

    run_ranks(2, body)


def test_callback_may_wait_for_another_call():
    def body(rank, size):
        # As torch's quantization hooks do: a call inside the callback of another, waited for there.
        def second(future):
            doubled = future.value()[0] * 2
            return dist.all_reduce(doubled, async_op=True).get_future().wait()

        works = [dist.all_reduce(torch.ones(1), async_op=True).get_future() for _ in range(3)]
        assert [f.then(second).wait()[0].item() for f in works] == [8.0] * 3

    run_ranks(2, body)


def test_callback_does_not_stop_other_calls():
    def body(rank, size):
        blocked, release = threading.Event(), threading.Event()

        def callback(future):
            blocked.set()
            release.wait()
            return future.value()

        # In this very thread, if the call had ended before the callback is added.
        if rank == 1:
            store().get("added")
        held = dist.all_reduce(torch.ones(1), async_op=True).get_future()
        if rank == 0:
            held = held.then(callback)
            store().set("added", "1")
            assert blocked.wait(PATIENCE_S)
        other = dist.all_reduce(torch.ones(1), async_op=True)  # moves while the callback stands
        assert other.get_future().wait()[0].item() == 2.0
        release.set()
        held.wait()

    run_ranks(2, body)


def test_callback_may_destroy_the_group():
    def body(rank, size):
        done = threading.Event()

        def callback(future):
            dist.destroy_process_group()
            done.set()

        dist.barrier(async_op=True).get_future().then(callback)
        assert done.wait(PATIENCE_S)
        assert not dist.is_initialized()

    run_ranks(2, body)


def in_a_profile() -> bool:
    return torch.autograd._profiler_enabled()


# A state of the calling thread, how it is entered, and how it looks from inside.
STATES = [
    (torch.no_grad, torch.is_grad_enabled),
    (torch.inference_mode, torch.is_inference_mode_enabled),
    (lambda: torch.autocast("cpu", torch.bfloat16), lambda: torch.is_autocast_enabled("cpu")),
    (torch.autograd.profiler.profile, in_a_profile),
]


@pytest.mark.parametrize("number", range(len(STATES)))
def test_callbacks_run_in_the_state_of_the_call(number):
    enter, look = STATES[number]

    def body(rank, size):
        outside = look()
        if rank == 1:
            store().get("go")  # the call of rank 0 is pending when its callback is added
        with enter():
            inside = look()
            future = dist.all_reduce(torch.ones(4), async_op=True).get_future()
        assert inside != outside
        threads = []

        def callback(done):
            threads.append(threading.get_ident())
            return look()

        seen = future.then(callback)
        if rank == 0:
            store().set("go", "")
            assert seen.wait() == inside
            assert threads != [threading.get_ident()]
        else:
            seen.wait()
        assert look() == outside

    run_ranks(2, body)


def test_calls_overlap_with_computation():
    def body(rank, size):
        arrived = dist.all_reduce(torch.ones(1 << 20), async_op=True)
        product = torch.eye(300)
        for _ in range(10_000):
            product = product @ product
            if arrived.is_completed():  # without anybody waiting for it
                return
        raise AssertionError("no progress while this thread computes")

    run_ranks(2, body)


def test_python_threads_run_while_one_waits():
    def body(rank, size):
        if rank == 0:
            waiting = threading.Thread(target=dist.barrier)
            waiting.start()
            counted = sum(1 for _ in range(100_000))
            assert waiting.is_alive()
            store().set("counted", str(counted))
            waiting.join()
        else:
            assert store().get("counted") == b"100000"
            dist.barrier()

    run_ranks(2, body)


def store():
    return dist.distributed_c10d._get_default_store()


def test_tensors_live_until_the_end_and_no_longer():
    def body(rank, size):
        if rank == 1:
            store().get("go")
        source = torch.full((1 << 16,), rank + 1.0)
        alive = weakref.ref(source)
        gathered = torch.zeros(size << 16)
        work = dist.all_gather_into_tensor(gathered, source, async_op=True)
        del source
        gc.collect()
        if rank == 0:
            assert not work.is_completed()
            store().set("go", "")
        work.wait()
        assert gathered.view(size, -1)[:, 0].tolist() == [1.0, 2.0]
        assert alive() is None  # though the Work is still here

    run_ranks(2, body)


def test_forgotten_work_is_carried_out():
    def body(rank, size):
        tensors = [torch.ones(10) for _ in range(50)]
        for tensor in tensors:
            dist.all_reduce(tensor, async_op=True)
        gc.collect()
        dist.barrier()
        assert all(tensor.tolist() == [2.0] * 10 for tensor in tensors)

    run_ranks(2, body)


def test_many_small_calls_in_flight():
    def body(rank, size):
        tensors = [torch.full((n % 50 + 1,), float(rank + n)) for n in range(500)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        for work in works[::-1]:
            work.wait()
        for n, tensor in enumerate(tensors):
            assert (tensor == sum(r + n for r in range(size))).all(), n

    run_ranks(3, body)


def test_point_to_point():
    def body(rank, size):
        following, previous = (rank + 1) % size, (rank - 1) % size
        for count in (0, 1, 100, 1 << 20):
            out, into = torch.full((count,), float(rank)), torch.full((count,), -1.0)
            works = [dist.isend(out, following), dist.irecv(into, previous)]
            for work in works:
                work.wait()
            assert (into == previous).all()
        if rank == 0:  # received in another order than sent
            for tag in range(5):
                dist.send(torch.full((1,), float(tag)), 1, tag=tag)
        elif rank == 1:
            for tag in reversed(range(5)):
                one = torch.zeros(1)
                assert dist.recv(one, 0, tag=tag) == 0
                assert one.item() == tag
        if rank == 0:
            senders = set()
            for _ in range(size - 1):
                one = torch.zeros(1)
                sender = dist.recv(one)
                assert one.item() == sender
                senders.add(sender)
            assert senders == set(range(1, size))
        else:
            dist.send(torch.full((1,), float(rank)), 0)

    run_ranks(3, body)


def test_batch_of_sends_and_receives():
    def body(rank, size):
        outs = [torch.full((50 + r,), float(rank)) for r in range(size)]
        intos = [torch.zeros(50 + rank) for _ in range(size)]
        others = [r for r in range(size) if r != rank]
        operations = [dist.P2POp(dist.isend, outs[r], r) for r in others]
        operations += [dist.P2POp(dist.irecv, intos[r], r) for r in others]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        assert all((intos[r] == r).all() for r in others)

    run_ranks(4, body)


def test_late_receive_does_not_block_collectives():
    def body(rank, size):
        big = torch.full((1 << 20,), 7.0)
        if rank == 0:
            sending = dist.isend(big, 1)
            dist.barrier()
            sending.wait()
        else:
            dist.barrier()
            into = torch.zeros(1 << 20)
            dist.recv(into, 0)
            assert into.equal(big)

    run_ranks(2, body)


def test_two_groups_in_swapped_order():
    def body(rank, size):
        groups = [dist.new_group([0, 1]), dist.new_group([0, 1])]
        order = groups if rank == 0 else groups[::-1]
        tensors = {group: torch.ones(1000) for group in groups}

        def use(group):
            for _ in range(50):
                dist.all_reduce(tensors[group], group=group)
                tensors[group] /= size

        threads = [threading.Thread(target=use, args=(group,)) for group in order]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        works = [dist.all_reduce(tensors[group], group=group, async_op=True) for group in order]
        for work in works:
            work.wait()
        assert all(tensor.tolist() == [2.0] * 1000 for tensor in tensors.values())

    run_ranks(2, body)


def test_wait_with_a_timeout():
    def body(rank, size):
        if rank == 1:
            store().wait(["over"])
            return
        work = dist.all_reduce(torch.ones(1), async_op=True)
        with pytest.raises(dist.DistBackendError, match=r"missing: rank 1.* timeout "):
            work.wait(seconds(0.2))
        store().set("over", "")

    run_ranks(2, body)


def test_profiler_sees_the_calls():
    def body(rank, size):
        with torch.profiler.profile(record_shapes=True) as profile:
            dist.all_reduce(torch.ones(10))
            dist.broadcast(torch.ones(10), 0)
            dist.barrier()
            if rank == 0:
                dist.send(torch.ones(1), 1)
            else:
                dist.recv(torch.ones(1))
        names = {event.name for event in profile.events()}
        point_to_point = "ringwood:send" if rank == 0 else "ringwood:recvAnySource"
        wanted = {"ringwood:all_reduce", "ringwood:broadcast", "ringwood:barrier", point_to_point}
        assert wanted <= names, names
        shapes = [
            event.input_shapes for event in profile.events() if event.name == "ringwood:all_reduce"
        ]
        assert shapes == [[[10]]]

    run_ranks(2, body)


def test_callbacks_need_no_thread_that_starts_late():
    """After a pause, with not one thread more allowed than there are."""

    def body(rank, size):
        dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()
        time.sleep(1.5)  # a thread without work would have ended
        if os.getuid() == 0:  # the superuser has no such limit
            os.setresuid(65534, 65534, 65534)
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        with pytest.raises(RuntimeError, match="new thread"):
            threading.Thread(target=print).start()
        sums = []
        for _ in range(20):
            work = dist.all_reduce(torch.ones(3), async_op=True)
            future = work.get_future().then(lambda done: done.value()[0].sum().item())
            sums.append(future.wait())
        return sums

    assert run_ranks(2, body) == [[6.0] * 20] * 2

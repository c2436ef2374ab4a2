"""What goes wrong: caller's mistakes, ranks that disagree, die, do not come, fork or leave."""

import multiprocessing
import os
import re
import signal
import time

import pytest
import torch
import torch.distributed as dist
from backend_ranks import KILLED, run_ranks, seconds
from processes import PATIENCE_S
from wakeups import growing_limit, measures_again

Op = dist.ReduceOp
FORK = multiprocessing.get_context("fork")
ones = torch.ones
plain = ones(4)
ints = torch.ones(4, dtype=torch.int32)
flags = torch.ones(4, dtype=torch.bool)
meta = ones(4, device="meta")
sparse = ones(4).to_sparse()
uint16 = torch.ones(4, dtype=torch.uint16)


def backend():
    return dist.group.WORLD._get_backend(torch.device("cpu"))


def options(kind, **values):
    made = kind()
    for name, value in values.items():
        setattr(made, name, value)
    return made


# What is called, the exception, what it says. On every rank alike, and the group works afterwards.
# What one rank alone may find wrong is in test_backend_refusals.py.
MISTAKES = [
    (lambda: backend().allreduce([meta]), RuntimeError, "allreduce: unsupported device type meta"),
    (
        lambda: backend().broadcast([meta], dist.BroadcastOptions()),
        RuntimeError,
        "device type meta",
    ),
    (lambda: backend().allgather([[plain, meta]], [plain]), RuntimeError, "device type meta"),
    (lambda: backend().broadcast([sparse]), RuntimeError, "only supports dense tensors"),
    (lambda: backend().allreduce([]), RuntimeError, "requires non-empty tensor list"),
    (lambda: backend().allreduce([plain, plain]), RuntimeError, "requires a single-element tensor"),
    (lambda: dist.all_reduce(uint16), RuntimeError, "invalid scalar type UInt16"),
    (
        lambda: dist.all_reduce(plain, Op.BAND),
        RuntimeError,
        "Cannot use ReduceOp.BAND with non-int",
    ),
    (lambda: dist.reduce(plain, 0, Op.BXOR), RuntimeError, "Cannot use ReduceOp.BXOR with non-int"),
    (lambda: dist.all_reduce(ones(2) + 0j, Op.MAX), ValueError, "MAX on complex tensors"),
    (lambda: backend().allreduce([ones(2) + 0j], Op.MAX), RuntimeError, "max with ComplexFloat"),
    (lambda: dist.all_reduce(flags, Op.AVG), RuntimeError, "ReduceOp.avg with Bool tensors"),
    (lambda: dist.reduce(flags, 0, Op.AVG), RuntimeError, "ReduceOp.avg with Bool tensors"),
    (
        lambda: dist.reduce_scatter_tensor(flags[:2], flags, Op.AVG),
        RuntimeError,
        "ReduceOp.avg with Bool tensors",
    ),
    (
        lambda: dist.all_reduce(ints, dist._make_nccl_premul_sum(2.0)),
        RuntimeError,
        "premul_sum with",
    ),
    (lambda: dist.broadcast(plain, 7), RuntimeError, "broadcast: invalid root rank: 7"),
    (
        lambda: backend().broadcast([plain], options(dist.BroadcastOptions, rootTensor=1)),
        RuntimeError,
        "broadcast: invalid root tensor: 1",
    ),
    (
        lambda: backend().reduce([plain], options(dist.ReduceOptions, rootTensor=-1)),
        RuntimeError,
        "reduce: invalid root tensor: -1",
    ),
    (
        lambda: backend().gather([], [plain], options(dist.GatherOptions, rootRank=-1)),
        RuntimeError,
        "invalid root rank: -1",
    ),
    (lambda: backend().send([plain], 5, 0), RuntimeError, "invalid peer rank 5 in a group of 2"),
    (lambda: backend().recv([plain], 0, -1), RuntimeError, "Tag must be nonnegative"),
]


def test_mistakes_of_the_caller():
    def body(rank, size):
        for call, exception, text in MISTAKES:
            with pytest.raises(exception, match=text) as raised:
                call()
            assert not isinstance(raised.value, dist.DistError), text
        tensor = ones(3)
        dist.all_reduce(tensor)  # nothing was sent, nothing is out of step
        assert tensor.tolist() == [2.0] * 3

    run_ranks(2, body)


# What rank 1 calls while the others call all_reduce(float32 x 4, SUM), and how that reads.
MISMATCHES = [
    (lambda t: dist.all_reduce(t[:3]), "float32 x 3"),
    (lambda t: dist.all_reduce(t.double()), "float64 x 4"),
    (lambda t: dist.all_reduce(t, Op.MAX), "max"),
    (lambda t: dist.broadcast(t, 0), "broadcast"),
    (lambda t: dist.barrier(), "barrier"),
    (lambda t: dist.all_gather([ones(4) for _ in range(3)], t), "all_gather"),
    (lambda t: dist.reduce(t, 2), "reduce"),
]


@pytest.mark.parametrize("async_op", [False, True])
@pytest.mark.parametrize("number", range(len(MISMATCHES)))
def test_ranks_that_call_different_things(number, async_op):
    theirs, text = MISMATCHES[number]
    together = FORK.Barrier(3)

    def body(rank, size):
        tensor = torch.full((4,), float(rank))
        together.wait()
        with pytest.raises(dist.DistBackendError) as raised:
            if rank == 1:
                theirs(tensor)
            else:
                work = dist.all_reduce(tensor, async_op=async_op)
                if async_op:
                    work.wait()
        assert (tensor == rank).all(), "data was touched"
        with pytest.raises(dist.DistBackendError):
            dist.barrier()
        return str(raised.value)

    for message in run_ranks(3, body):  # by no time-out: there is none before the test's own
        assert text in message, message
        assert "all_reduce" in message, message
        assert "float32 x 4" in message, message
        assert re.search(r"rank 1\b", message), message


def test_mismatched_lists_and_roots():
    cases = [
        lambda rank: dist.broadcast(ones(4), rank),
        lambda rank: dist.all_gather([ones(4 + rank)] * 2, ones(4 + rank)),
        lambda rank: dist.gather(ones(4 + rank), [ones(4 + rank)] * 2 if rank == 0 else None),
        lambda rank: dist.all_to_all_single(ones(2 + 2 * rank), ones(2 + 2 * rank)),
        lambda rank: dist.reduce_scatter_tensor(ones(2 + rank), ones(4 + 2 * rank)),
    ]
    for case in cases:

        def body(rank, size, case=case):
            with pytest.raises(dist.DistBackendError, match="mismatch"):
                case(rank)

        run_ranks(2, body)


@pytest.mark.parametrize("async_op", [False, True])
def test_killed_rank_is_named(async_op):
    together = FORK.Barrier(4)

    def body(rank, size):
        dist.all_reduce(ones(4))
        together.wait()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        # By its death, of which the others hear: there is no time-out before the test's own.
        with pytest.raises(dist.DistBackendError, match="rank 1") as raised:
            if async_op:
                dist.all_reduce(ones(1 << 20), async_op=True).get_future().wait()
            dist.all_reduce(ones(1 << 20))
        assert "died" in str(raised.value)

    assert run_ranks(4, body, killed=[1])[1] is KILLED


@pytest.mark.parametrize("leaving", range(3))
def test_rank_that_leaves_is_named(leaving):
    def body(rank, size):
        dist.barrier()
        if rank == leaving:
            dist.destroy_process_group()
            return
        with pytest.raises(dist.DistBackendError, match=f"rank {leaving} left the group"):
            dist.all_reduce(ones(4))

    run_ranks(3, body)


@measures_again
def test_timeout_names_who_is_missing():
    def check(limit_s):
        over = FORK.Event()

        def body(rank, size):
            dist.barrier()
            if rank == 2:
                assert over.wait(PATIENCE_S)
                return
            begun = time.monotonic()
            with pytest.raises(dist.DistBackendError) as raised:
                dist.all_reduce(ones(4))
            over.set()
            assert time.monotonic() - begun > 0.9 * limit_s
            words = rf"not finished within {limit_s:.1f} s.*missing: rank 2.* timeout "
            assert re.search(words, str(raised.value)), str(raised.value)

        run_ranks(3, body, group_timeout_s=limit_s)

    growing_limit(check)  # ranks 0 and 1 have to come within it


def test_timeout_of_one_call():
    over = FORK.Event()

    def body(rank, size):
        if rank == 1:
            assert over.wait(PATIENCE_S)
            return
        how = options(dist.AllreduceOptions, timeout=seconds(0.3))
        with pytest.raises(dist.DistBackendError) as raised:
            dist.group.WORLD.allreduce([ones(4)], how).wait()
        over.set()
        assert "not finished within 0.3 s" in str(raised.value)

    run_ranks(2, body)


@measures_again
def test_monitored_barrier_names_all_that_are_missing():
    import ringwood

    def check(limit_s):
        over = FORK.Event()

        def body(rank, size):
            ringwood.monitored_barrier()
            if rank in (1, 3):
                assert over.wait(PATIENCE_S)
                return
            with pytest.raises(dist.DistBackendError) as raised:
                ringwood.monitored_barrier(timeout=seconds(limit_s))
            over.set()
            assert re.search(r"missing: rank 1\b.*rank 3\b", str(raised.value)), str(raised.value)

        run_ranks(4, body)

    growing_limit(check, 0.3)  # ranks 0 and 2 have to come within it


def test_abort_fails_what_is_pending_on_all_ranks():
    begun = FORK.Barrier(3)

    def body(rank, size):
        work = dist.all_reduce(ones(4), async_op=True) if rank > 0 else None
        begun.wait()
        if rank == 0:
            backend().abort()
        with pytest.raises(dist.DistBackendError, match="abort"):
            work.wait() if work else dist.all_reduce(ones(4))

    run_ranks(3, body)


def test_group_in_a_forked_child():
    def body(rank, size):
        dist.all_reduce(ones(4))
        pending = dist.barrier(async_op=True) if rank == 0 else None
        child = os.fork()
        if child == 0:
            try:
                with pytest.raises(RuntimeError, match="forked after the group was made"):
                    dist.all_reduce(ones(4))
                del pending
                dist.destroy_process_group()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        if rank == 1:
            dist.barrier()
        else:
            pending.wait()
        dist.all_reduce(ones(4))

    run_ranks(2, body)


def test_data_loading_processes():
    def body(rank, size):
        data = torch.utils.data.TensorDataset(torch.arange(40.0))
        loader = torch.utils.data.DataLoader(data, batch_size=5, num_workers=2)
        total = torch.zeros(1)
        for (batch,) in loader:
            part = batch.sum().reshape(1)
            dist.all_reduce(part)
            total += part
        assert total.item() == 2 * sum(range(40))

    run_ranks(2, body)

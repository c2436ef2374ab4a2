"""Outputs whose elements share memory."""

import multiprocessing

import pytest
import torch
import torch.distributed as dist
from backend_ranks import BACKEND, run_ranks
from processes import PATIENCE_S

pytestmark = pytest.mark.skipif(BACKEND != "ringwood", reason="gloo fails after the exchange")
FORK = multiprocessing.get_context("fork")
ones = torch.ones


def backend():
    return dist.group.WORLD._get_backend(torch.device("cpu"))


def all_to_all(outputs: list) -> None:
    dist.all_to_all(outputs, [ones(4) for _ in outputs])


def gather(outputs: list) -> None:
    dist.gather(ones(4), outputs if dist.get_rank() == 1 else None, dst=1)


def gather_coalesced(outputs: list) -> None:
    dist.all_gather_coalesced([[one] for one in outputs], [ones(4)])


def gather_into(outputs: list) -> None:
    dist.group.WORLD.allgather_into_tensor_coalesced(
        outputs, [one[:2].clone() for one in outputs]
    ).wait()


def scatter_into(outputs: list) -> None:
    inputs = [torch.cat([ones(4)] * 2) for _ in outputs]
    dist.group.WORLD.reduce_scatter_tensor_coalesced(outputs, inputs).wait()


def reduce_all(outputs: list) -> None:
    backend().allreduce_coalesced(outputs).wait()


def itself(base: torch.Tensor) -> list:
    return [torch.zeros(4), base[:1].expand(4)]


def strided(base: torch.Tensor) -> list:
    return [base[:6].as_strided((2, 2), (2, 1)).view(4), base.as_strided((4,), (0,))]


def each_other(base: torch.Tensor) -> list:
    return [base[:4], base[2:6]]


GATHERS = [dist.all_gather, all_to_all, gather, gather_coalesced]
SHARING = [
    *[(call, outputs) for call in GATHERS for outputs in (itself, strided, each_other)],
    *[(call, each_other) for call in (gather_into, scatter_into, reduce_all)],
]


@pytest.mark.parametrize("case", SHARING, ids=lambda case: f"{case[0].__name__}-{case[1].__name__}")
def test_outputs_that_share_memory(case):
    """Refused before anything is sent; ranks that have called already fail at once."""
    call, outputs = case
    begun = FORK.Event()

    def body(rank, size):
        dist.barrier()
        base = torch.zeros(8)
        mine = outputs(base) if rank == 1 else [torch.zeros(4), torch.zeros(4)]
        arguments = (mine, ones(4)) if call is dist.all_gather else (mine,)
        if rank == 1:
            assert begun.wait(PATIENCE_S)
            with pytest.raises(RuntimeError, match="share memory") as raised:
                call(*arguments)
            assert not isinstance(raised.value, dist.DistError)
            assert base.eq(0).all()
        else:
            begun.set()
            with pytest.raises(dist.DistBackendError, match=r"rank 1 .*refused.*share memory"):
                call(*arguments)
                dist.barrier()  # a gather waits for nobody where nothing is gathered

    run_ranks(2, body)


# Calls that write to one tensor, of 4 or of 8 elements; rank 1 is the root.
ONE_OUTPUT = {
    "all_reduce": (4, dist.all_reduce),
    "broadcast": (4, lambda out: dist.broadcast(out, 0)),
    "reduce": (4, lambda out: dist.reduce(out, 1)),
    "all_reduce_coalesced": (4, lambda out: backend().allreduce_coalesced([ones(2), out]).wait()),
    "all_gather_single": (8, lambda out: dist.all_gather_into_tensor(out, ones(4))),
    "scatter": (4, lambda out: dist.scatter(out, scattered(out), src=1)),
    "reduce_scatter": (4, lambda out: dist.reduce_scatter(out, [ones(4), ones(4)])),
    "reduce_scatter_single": (4, lambda out: dist.reduce_scatter_tensor(out, ones(8))),
    "all_to_all_single": (4, lambda out: dist.all_to_all_single(out, ones(4))),
    "recv": (4, lambda out: dist.recv(out, 0) if dist.get_rank() else dist.barrier()),
}


def scattered(out: torch.Tensor) -> list | None:
    return [ones(4), ones(4)] if dist.get_rank() == 1 else None


@pytest.mark.parametrize("name", ONE_OUTPUT)
def test_an_output_that_overlaps_itself(name):
    """On one rank: refused there before anything is sent, and the other hears of it."""
    count, call = ONE_OUTPUT[name]
    together = FORK.Barrier(2)

    def body(rank, size):
        together.wait()  # a refusal is not to meet the other while it makes the group
        if rank == 1:
            one = torch.zeros(1)
            with pytest.raises(RuntimeError, match=r"share memory.*clone\(\)") as raised:
                call(one.expand(count))
            assert not isinstance(raised.value, dist.DistError)
            assert one.item() == 0
        else:
            with pytest.raises(dist.DistBackendError, match=r"rank 1 .*refused.*share memory"):
                call(torch.zeros(count))
                dist.barrier()  # the root of a broadcast waits for nobody

    run_ranks(2, body)


def test_outputs_that_lie_between_each_other():
    def body(rank, size):
        base = torch.zeros(5, 2)
        dist.all_gather([base[:, 0], base[:, 1]], torch.full((5,), rank + 1.0))
        assert base.tolist() == [[1.0, 2.0]] * 5
        odd = torch.zeros(6)
        dist.all_gather(
            [torch.zeros(2, 2), odd.as_strided((2, 2), (2, 3))], torch.full((2, 2), rank + 1.0)
        )
        assert odd.tolist() == [2.0, 0.0, 2.0, 2.0, 0.0, 2.0]

    run_ranks(2, body)

"""What may be wrong on one rank only: how its tensors fit each other. The others, who have perhaps
begun, hear of it at once, by no time-out: there is none before the test's own."""

import multiprocessing

import pytest
import torch
import torch.distributed as dist
from backend_ranks import BACKEND, new_group_everywhere, run_ranks

pytestmark = pytest.mark.skipif(BACKEND != "ringwood", reason="the ranks of gloo wait")
FORK = multiprocessing.get_context("fork")
ones = torch.ones
CPU = torch.device("cpu")


def backend(group):
    return group._get_backend(CPU)


def options(kind, **values):
    made = kind()
    for name, value in values.items():
        setattr(made, name, value)
    return made


# The calls of two ranks; the second argument is for the one that is mistaken.
def gather_lists(group, outputs=None) -> None:
    outputs = outputs or [ones(4), ones(4)]
    backend(group).allgather([outputs], [ones(4)]).wait()


def gather_blocks(group, output=None) -> None:
    output = ones(8) if output is None else output
    group.allgather_into_tensor_coalesced([output], [ones(4)]).wait()


def gather_coalesced(group, outputs=None) -> None:
    outputs = outputs or [[ones(4)], [ones(4)]]
    backend(group).allgather_coalesced(outputs, [ones(4)]).wait()


def scatter_lists(group, inputs=None) -> None:
    inputs = inputs or [ones(4), ones(4)]
    backend(group).reduce_scatter([ones(4)], [inputs]).wait()


def scatter_blocks(group, inputs=None) -> None:
    group.reduce_scatter_tensor_coalesced([ones(4)], inputs or [ones(8)]).wait()


def gather(group, lists=()) -> None:
    """To the rank that is mistaken."""
    how = options(dist.GatherOptions, rootRank=1)
    backend(group).gather(list(lists), [ones(4)], how).wait()


def gather_to_the_other(group, lists=None) -> None:
    lists = [[ones(4), ones(4)]] if lists is None else lists
    backend(group).gather(lists, [ones(4)], options(dist.GatherOptions, rootRank=0)).wait()


def scatter(group, lists=()) -> None:
    """From the rank that is mistaken."""
    how = options(dist.ScatterOptions, rootRank=1)
    backend(group).scatter([ones(4)], list(lists), how).wait()


def scatter_from_the_other(group, lists=None) -> None:
    lists = [[ones(4), ones(4)]] if lists is None else lists
    backend(group).scatter([ones(4)], lists, options(dist.ScatterOptions, rootRank=0)).wait()


def exchange(group, outputs=None) -> None:
    dist.all_to_all(outputs or [ones(4), ones(4)], [ones(4), ones(4)], group=group)


def exchange_splits(group, tensor=None, received=(2, 2), sent=(2, 2)) -> None:
    tensor = ones(4) if tensor is None else tensor
    out = torch.zeros_like(tensor)
    dist.all_to_all_single(out, tensor, list(received), list(sent), group=group)


# The call, what the mistaken rank gives it, the exception there, and what all are told.
ELSEWHERE = [
    (gather_lists, [[ones(4)]], RuntimeError, "expected length 2, got 1"),
    (gather_lists, [[ones(4), ones(5)]], RuntimeError, r"at index 1 \(expected \(4\), got \(5\)"),
    (gather_lists, [[ones(4), ones(4).int()]], RuntimeError, "expected Float, got Int"),
    (gather_blocks, [ones(9)], ValueError, "equal to world_size times input"),
    (gather_blocks, [ones(8).int()], TypeError, "same type as input tensor"),
    (gather_coalesced, [[[ones(4)]]], RuntimeError, "lists should be equal to world size"),
    (gather_coalesced, [[[ones(4)], []]], RuntimeError, "expected length 1, got 0"),
    (gather_coalesced, [[[ones(4)], [ones(5)]]], RuntimeError, r"expected \(4\), got \(5\)"),
    (scatter_lists, [[ones(4)]], RuntimeError, "expected length 2, got 1"),
    (scatter_lists, [[ones(4), ones(5)]], RuntimeError, r"at index 1 \(expected \(4\), got \(5\)"),
    (scatter_lists, [[ones(4), ones(4).int()]], RuntimeError, "expected Float, got Int"),
    (scatter_blocks, [[ones(9)]], ValueError, "output size times world size"),
    (scatter_blocks, [[ones(8).int()]], TypeError, "same type as the output"),
    (scatter_blocks, [[ones(8), ones(8)]], RuntimeError, "same length"),
    (gather, [[[ones(4)]]], RuntimeError, "output list size 1"),
    (gather, [[[ones(4), ones(5)]]], RuntimeError, r"expected \(4\), got \(5\)"),
    (gather_to_the_other, [[[ones(4)] * 2]], RuntimeError, "empty output on non-root"),
    (scatter, [[[ones(4)]]], RuntimeError, "input list size 1"),
    (scatter, [[[ones(4), ones(4).int()]]], RuntimeError, "expected Float, got Int"),
    (scatter_from_the_other, [[[ones(4)] * 2]], RuntimeError, "empty input on non-root"),
    (exchange, [[ones(4)]], RuntimeError, "list size 1 does not match world size 2"),
    (exchange, [[ones(4), ones(5)]], RuntimeError, r"expected \(4\), got \(5\)"),
    (exchange_splits, [ones(4), (2, 2), (4,)], RuntimeError, "splits not equal to group size"),
    (exchange_splits, [ones(4), (1, 1)], RuntimeError, "doesn't match total"),
    (exchange_splits, [ones(4), (3, 1), (1, 3)], RuntimeError, "sends 3 elements to itself"),
    (exchange_splits, [ones(3), (), ()], RuntimeError, "does not divide equally"),
]


def test_the_others_hear_at_once():
    def body(rank, size):
        for call, mistake, exception, text in ELSEWHERE:
            group = new_group_everywhere()
            if rank == 1:
                with pytest.raises(exception, match=text) as raised:
                    call(group, *mistake)
                assert not isinstance(raised.value, dist.DistError), text
            else:
                words = rf"rank 1 .*was refused on this rank: .*{text}"
                with pytest.raises(dist.DistBackendError, match=words):
                    call(group)
                    dist.barrier(group)  # what sends only waits for nobody
            dist.barrier()

    run_ranks(2, body)


# Rank 0's own block fits, rank 1's does not.
SAME_CALLS = [
    lambda: dist.all_gather([ones(4), ones(5)], ones(4)),
    lambda: dist.reduce_scatter(ones(4), [ones(4), ones(5)]),
    lambda: dist.all_to_all([ones(4), ones(5)], [ones(4), ones(4)]),
]


@pytest.mark.parametrize("number", range(len(SAME_CALLS)))
def test_a_list_that_is_wrong_for_one_of_the_ranks(number):
    """All call the same, and only rank 1 can see what is wrong."""
    together = FORK.Barrier(2)

    def body(rank, size):
        together.wait()  # a refusal is not to meet the other while it makes the group
        exception = dist.DistBackendError if rank == 0 else RuntimeError
        words = r"rank 1 .*refused.*at index 1" if rank == 0 else r"invalid tensor size at index 1"
        with pytest.raises(exception, match=words):
            SAME_CALLS[number]()

    run_ranks(2, body)

"""Calls that are made as one: torch's coalesced calls, and its coalescing manager."""

import multiprocessing

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from backend_ranks import BACKEND, new_group_everywhere, run_ranks

pytestmark = pytest.mark.skipif(BACKEND != "ringwood", reason="gloo has not all of these")
FORK = multiprocessing.get_context("fork")
Op = dist.ReduceOp
# Elements of a block: small ones, which go together, none, and more than go together.
COUNTS = [3, 0, 64, 1, 10_000, 7, 100, 40_000, 5]
TYPES = [torch.float32, torch.float32, torch.int64, torch.bfloat16]


def managed(**how):
    return dist.distributed_c10d._coalescing_manager(**how)


def world():
    return dist.group.WORLD


def operand(rank: int, number: int) -> torch.Tensor:
    """What `rank` gives to the `number`-th call: a block."""
    values = (torch.arange(COUNTS[number]) + 5 * rank + number) % 11
    return values.to(TYPES[number % len(TYPES)])


def whole(rank: int, number: int, size: int) -> torch.Tensor:
    """A block for each rank, of `rank`; that for b is operand(rank + b)."""
    return torch.cat([operand(rank + b, number) for b in range(size)])


def gathered(number: int, size: int) -> torch.Tensor:
    return torch.cat([operand(r, number) for r in range(size)])


def summed(rank: int, number: int, size: int) -> torch.Tensor:
    return sum(operand(r + rank, number) for r in range(size))


def manage(call, asynchronous: bool) -> None:
    """Makes all calls, and waits for them."""
    with managed(async_ops=asynchronous) as works:
        for number in range(len(COUNTS)):
            call(number)
    if asynchronous:
        works.wait()


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("asynchronous", [True, False], ids=["async", "sync"])
def test_managed_calls(asynchronous, size):
    def body(rank, size):
        numbers = range(len(COUNTS))
        outs = [torch.full_like(gathered(i, size), 77) for i in numbers]
        ins = [operand(rank, i) for i in numbers]
        manage(lambda i: dist.all_gather_into_tensor(outs[i], ins[i]), asynchronous)
        assert all(outs[i].equal(gathered(i, size)) for i in numbers)
        assert all(ins[i].equal(operand(rank, i)) for i in numbers)

        ins = [whole(rank, i, size) for i in numbers]
        outs = [torch.full_like(operand(rank, i), 77) for i in numbers]
        manage(lambda i: dist.reduce_scatter_tensor(outs[i], ins[i]), asynchronous)
        assert all(outs[i].equal(summed(rank, i, size)) for i in numbers)
        assert all(ins[i].equal(whole(rank, i, size)) for i in numbers)

        sums = [operand(rank, i) for i in numbers]
        manage(lambda i: dist.all_reduce(sums[i]), asynchronous)
        assert all(sums[i].equal(summed(0, i, size)) for i in numbers)
        dist.barrier()

    run_ranks(size, body)


def test_managed_calls_in_place():
    def body(rank, size):
        numbers = range(len(COUNTS))
        outs = [torch.full_like(gathered(i, size), 77) for i in numbers]
        own = [out.chunk(size)[rank] if len(out) else out for out in outs]
        for i in numbers:
            own[i].copy_(operand(rank, i))
        manage(lambda i: dist.all_gather_into_tensor(outs[i], own[i]), True)
        assert all(outs[i].equal(gathered(i, size)) for i in numbers)

        ins = [whole(rank, i, size) for i in numbers]
        own = [one.chunk(size)[rank] if len(one) else one for one in ins]
        manage(lambda i: dist.reduce_scatter_tensor(own[i], ins[i], Op.MAX), True)
        for i in numbers:
            expected = torch.cat([operand(rank + b, i) for b in range(size)])
            most = torch.stack([operand(r + rank, i) for r in range(size)]).amax(0)
            expected[rank * COUNTS[i] : (rank + 1) * COUNTS[i]] = most
            assert ins[i].equal(expected), "the other blocks stay"

    run_ranks(3, body)


def test_an_input_that_another_call_writes_to_is_read_before():
    """Whether calls go together, or in which order, makes no difference."""

    def body(rank, size):
        for count in (4, 20_000):
            base = torch.full((2 * size * count,), float(rank + 1))
            first, second = base.chunk(2)
            # Each reads a part of what the other writes.
            inputs = [second[:count], first[count : 2 * count]]
            world().allgather_into_tensor_coalesced([first, second], inputs).wait()
            expected = torch.arange(1.0, size + 1).repeat_interleave(count)
            assert first.equal(expected)
            assert second.equal(expected)

            base = torch.full((2 * size * count,), float(rank + 1))
            inputs = list(base.chunk(2))
            outputs = [inputs[1][:count], inputs[0][count : 2 * count]]
            world().reduce_scatter_tensor_coalesced(outputs, inputs).wait()
            total = size * (size + 1) / 2
            assert all(out.eq(total).all() for out in outputs)

            # An output that is its own input's block, and lies in no other call's way.
            base = torch.full((2 * size * count,), float(rank + 1))
            inputs = list(base.chunk(2))
            outputs = [one.chunk(size)[rank] for one in inputs]
            world().reduce_scatter_tensor_coalesced(outputs, inputs).wait()
            assert base.eq(total).sum() == 2 * count
            assert all(out.eq(total).all() for out in outputs)

    run_ranks(2, body)


# Elements that go together, and more.
@pytest.mark.parametrize("count", [4, 20_000])
def test_an_input_that_an_output_lies_over_twice_is_read_before(count):
    def body(rank, size):
        shared, other = torch.full((count,), -1.0 - rank), torch.zeros(size, count)
        lists = [[shared, other[r]] for r in range(size)]
        world().allgather_coalesced(lists, [torch.full((count,), rank + 1.0), shared]).wait()
        assert other[:, 0].tolist() == [-1.0 - r for r in range(size)]
        assert other.eq(other[:, :1]).all()
        assert shared.eq(size).all()

    run_ranks(2, body)


@pytest.mark.parametrize("count", [4, 20_000])
@pytest.mark.parametrize("on", [[0], [0, 1]], ids=["one-rank", "all-ranks"])
def test_a_tensor_that_stands_there_twice(on, count):
    """It ends as the last of the outputs. What is changed in place is read once."""

    def body(rank, size):
        def outputs(elements: int) -> list:
            one = torch.full((elements,), rank + 1.0)
            return [one, one] if rank in on else [one, torch.full((elements,), rank + 10.0)]

        given = [torch.full((count,), rank + 1.0), torch.full((count,), rank + 10.0)]
        backend = world()._get_backend(torch.device("cpu"))
        sums = outputs(count)
        backend.allreduce_coalesced(sums).wait()
        assert sums[1].eq(3 if on == [0, 1] else 12).all()
        assert sums[0].eq(3).all() or rank in on
        gathers = outputs(size * count)
        world().allgather_into_tensor_coalesced(gathers, given).wait()
        assert gathers[1].equal(torch.tensor([10.0, 11.0]).repeat_interleave(count))
        scattered = outputs(count)
        wholes = [torch.cat([one] * size) for one in given]
        world().reduce_scatter_tensor_coalesced(scattered, wholes).wait()
        assert scattered[1].eq(21).all()

    run_ranks(2, body)


def test_lists_of_blocks():
    def body(rank, size):
        numbers = range(len(COUNTS))
        lists = [[torch.full_like(operand(0, i), 77) for i in numbers] for _ in range(size)]
        lists[0][2] = torch.zeros(64, 2, dtype=TYPES[2])[:, 1]  # strided
        world().allgather_coalesced(lists, [operand(rank, i) for i in numbers]).wait()
        for r in range(size):
            assert all(lists[r][i].equal(operand(r, i)) for i in numbers)

        # One tensor that stands in several lists ends as the last of them.
        shared = torch.zeros(3)
        ones, twos = torch.full((3,), rank + 1.0), torch.full((3,), rank + 10.0)
        dist.all_gather_coalesced([[shared, shared] for _ in range(size)], [ones, twos])
        assert shared.tolist() == [size - 1 + 10.0] * 3

        inputs = [operand(rank, i).clone() for i in numbers]
        outs = functional.all_gather_into_tensor_coalesced(inputs, world())
        assert all(outs[i].equal(gathered(i, size)) for i in numbers)
        wholes = [whole(rank, i, size) for i in numbers]
        dims = [0] * len(COUNTS)
        parts = functional.reduce_scatter_tensor_coalesced(wholes, "sum", dims, world())
        assert all(parts[i].equal(summed(rank, i, size)) for i in numbers)

    run_ranks(3, body)


def gather_of(counts: list[int], size: int) -> None:
    outs = [torch.zeros(size * count) for count in counts]
    world().allgather_into_tensor_coalesced(outs, [torch.ones(count) for count in counts]).wait()


def scatter_of(counts: list[int], size: int) -> None:
    ins = [torch.ones(size * count) for count in counts]
    world().reduce_scatter_tensor_coalesced([torch.zeros(count) for count in counts], ins).wait()


def lists_of(counts: list[int], size: int) -> None:
    lists = [[torch.zeros(count) for count in counts] for _ in range(size)]
    dist.all_gather_coalesced(lists, [torch.ones(count) for count in counts])


def sums_of(counts: list[int], size: int) -> None:
    dist.all_reduce_coalesced([torch.ones(count) for count in counts])


@pytest.mark.parametrize("odd", [[3, 5], [5], [5, 3, 0], [4, 4]], ids=str)
@pytest.mark.parametrize("call", [gather_of, scatter_of, lists_of, sums_of])
def test_other_sizes_on_one_rank(call, odd):
    """Found on all ranks, who have called them as one."""
    together = FORK.Barrier(3)

    def body(rank, size):
        together.wait()  # the error of two is not to meet the third while it makes the group
        with pytest.raises(dist.DistBackendError, match="packed") as raised:
            call(odd if rank == 1 else [5, 3], size)
        assert "rank 1" in str(raised.value) or "rank 0" in str(raised.value)

    run_ranks(3, body)


# A call of one rank, what is said about it there and on the others.
WRONG = [
    (
        lambda call: call([torch.zeros(6), torch.zeros(7)], [torch.ones(3), torch.ones(3)]),
        "size",
    ),
    (
        lambda call: call([torch.zeros(6), torch.zeros(6).int()], [torch.ones(3), torch.ones(3)]),
        "same type",
    ),
    (lambda call: call([torch.zeros(6)], [torch.ones(3), torch.ones(3)]), "same length"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_what_cannot_be_is_refused_before_anything_is_sent(number):
    mistake, text = WRONG[number]

    def body(rank, size):
        for method in ("allgather_into_tensor_coalesced", "reduce_scatter_tensor_coalesced"):
            group = new_group_everywhere()

            def call(large: list, small: list, group=group, method=method) -> None:
                lists = (large, small) if "gather" in method else (small, large)
                getattr(group, method)(*lists).wait()

            if rank == 1:
                with pytest.raises((ValueError, TypeError, RuntimeError), match=text) as raised:
                    mistake(call)
                assert not isinstance(raised.value, dist.DistError)
            else:
                with pytest.raises(dist.DistBackendError, match=f"rank 1 .*refused.*{text}"):
                    call([torch.zeros(6), torch.zeros(6)], [torch.ones(3), torch.ones(3)])
            dist.barrier()

    run_ranks(2, body)


def test_what_no_rank_can_call():
    """The group goes on."""

    def body(rank, size):
        for method in ("allgather_into_tensor_coalesced", "reduce_scatter_tensor_coalesced"):
            with pytest.raises(RuntimeError, match="non-empty"):
                getattr(world(), method)([], [])
        with pytest.raises(RuntimeError, match="Cannot use ReduceOp"):
            world().reduce_scatter_tensor_coalesced(
                [torch.zeros(1), torch.zeros(1)],
                [torch.ones(2), torch.ones(2)],
                reduce_options(Op.BOR),
            )
        tensor = torch.ones(2)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [size] * 2

    run_ranks(2, body)


def reduce_options(op: Op):
    options = dist.ReduceScatterOptions()
    options.reduceOp = op
    return options


def test_messages_of_a_batch():
    """Each is a call of its own: the backend does not say that it coalesces them."""

    def body(rank, size):
        right, left = (rank + 1) % size, (rank - 1) % size
        out = [torch.full((count,), float(rank)) for count in (1, 50_000)]
        into = [torch.zeros(count) for count in (1, 50_000)]
        batch = [dist.P2POp(dist.irecv, one, left) for one in into]
        batch += [dist.P2POp(dist.isend, one, right) for one in out]
        works = dist.batch_isend_irecv(batch)
        assert len(works) == len(batch)
        for work in works:
            work.wait()
        assert all(one.eq(left).all() for one in into)

    run_ranks(3, body)

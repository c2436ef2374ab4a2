"""What torch.distributed's numbers are where types end: overflow, rounding, zeros, NaN."""

import pytest
import torch
import torch.distributed as dist
from backend_ranks import BACKEND, run_ranks

Op = dist.ReduceOp
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
SMALL = [torch.float16, torch.bfloat16, E4M3, E5M2]
FLOATS = [torch.float64, torch.float32, *SMALL]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint32]
COUNTS = [1, 37, 5000, 100_003]

pytestmark = pytest.mark.skipif(BACKEND != "ringwood", reason="others overflow and round twice")


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.reshape(-1).view(torch.uint8).cpu().numpy().tobytes()


def filled(count: int, number: float, dtype: torch.dtype) -> torch.Tensor:
    return torch.full((count,), number, dtype=torch.float64).to(dtype)


def check_averages_of_the_largest(rank, size):
    for dtype in FLOATS:
        largest = torch.finfo(dtype).max
        for count in COUNTS:
            tensor = filled(count, largest, dtype)
            dist.all_reduce(tensor, Op.AVG)
            assert (tensor.double() == largest).all(), (dtype, count, tensor)
            out = filled(count, 0, dtype)
            dist.reduce_scatter_tensor(out, filled(count * size, -largest, dtype), Op.AVG)
            assert (out.double() == -largest).all(), (dtype, count, out)


def check_averages_of_the_smallest(rank, size):
    # Where partial sums of larger types travel, such numbers lose bits
    # (collectives/kernels/accumulate.h).
    for dtype in FLOATS if size == 2 else SMALL:
        for count in COUNTS[:2]:
            tensor = torch.zeros(count, dtype=dtype)
            tensor.view(torch.uint8)[:: dtype.itemsize] = 1  # the smallest number above 0
            expected = bits(tensor)
            dist.all_reduce(tensor, Op.AVG)
            assert bits(tensor) == expected, (dtype, count, tensor)


def check_averages_of_integers(rank, size):
    for dtype in INTEGERS:
        info = torch.iinfo(dtype)
        for count in COUNTS:
            tensor = torch.full((count,), info.max, dtype=dtype)
            tensor[::2] = info.min
            tensor[0] = info.max - rank
            expected = tensor.clone()
            expected[0] = (size * info.max - sum(range(size))) // size
            dist.all_reduce(tensor, Op.AVG)
            assert torch.equal(tensor, expected), (dtype, count, tensor)


def check_sums_round_once(rank, size):
    for dtype in SMALL:
        for count in COUNTS:
            every = [
                torch.randn(count, generator=torch.Generator().manual_seed(r)).to(dtype)
                for r in range(size)
            ]
            factors = [0.3 + 0.17 * r for r in range(size)]
            weighted = sum(x.double() * f for x, f in zip(every, factors, strict=True))
            for op, exact in (
                (Op.AVG, sum(x.double() for x in every) / size),
                (dist._make_nccl_premul_sum(factors[rank]), weighted),
            ):
                tensor = every[rank].clone()
                dist.all_reduce(tensor, op)
                error = (tensor.double() - exact).abs()
                half = torch.finfo(dtype).eps / 2
                allowed = exact.abs() * half + torch.finfo(dtype).tiny * half + 1e-6
                assert (error <= allowed).all(), (dtype, op, (error - allowed).max())


def specials(dtype: torch.dtype, count: int, rank: int) -> torch.Tensor:
    """Bits of every kind; half of them zeros, infinities and NaN."""
    generator = torch.Generator().manual_seed(rank)
    tensor = torch.randint(0, 256, (count * dtype.itemsize,), generator=generator)
    numbers = tensor.to(torch.uint8).view(dtype).clone()
    for first, number in enumerate([0.0, -0.0, float("inf"), -float("inf"), float("nan")]):
        numbers[(first + rank) % 10 :: 10] = torch.tensor(number).to(dtype)
    return numbers


def check_specials(rank, size):
    operations = {
        "sum": Op.SUM,
        "avg": Op.AVG,
        "product": Op.PRODUCT,
        "min": Op.MIN,
        "max": Op.MAX,
        "premul_sum": dist._make_nccl_premul_sum(-0.7),
    }
    found = []
    for dtype in FLOATS:
        for name, op in operations.items():
            for count in COUNTS:
                tensor = specials(dtype, count, rank)
                dist.all_reduce(tensor, op)
                found.append(((str(dtype), name, count), bits(tensor)))
    return found


def check_zeros(rank, size):
    for dtype in FLOATS:
        mine = torch.tensor([0.0, -0.0] if rank % 2 else [-0.0, 0.0]).to(dtype)
        for op, negative in ((Op.MIN, True), (Op.MAX, False)):
            tensor = mine.clone()
            dist.all_reduce(tensor, op)
            assert (torch.signbit(tensor.float()) == negative).all(), (dtype, op, tensor)


CHECKS = [value for name, value in sorted(globals().items()) if name.startswith("check_")]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("size", [2, 3, 4])
def test_numbers(check, size):
    results = run_ranks(size, check)
    for of_rank in results[1:]:
        for (what, mine), (same, first) in zip(of_rank or [], results[0] or [], strict=True):
            assert what == same
            assert mine == first, what

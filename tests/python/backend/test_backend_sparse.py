"""The sum of sparse tensors, which are of the CPU, against that of dense ones."""

import pytest
import torch
import torch.distributed as dist
from backend_ranks import run_ranks


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_sums(size):
    def body(rank, size):
        for nonzero in (0, 1, 3):
            indices = torch.stack([torch.arange(nonzero) + rank, torch.arange(nonzero)])
            values = torch.ones(nonzero, 2) * (rank + 1)
            summed = torch.sparse_coo_tensor(indices, values, (size + 3, 3, 2))
            expected = summed.to_dense()
            dist.all_reduce(expected)
            dist.all_reduce(summed)
            assert torch.equal(summed.to_dense(), expected), nonzero
        work = dist.all_reduce(torch.eye(3).to_sparse(), async_op=True)
        total = work.get_future().wait()[0]
        assert torch.equal(total.to_dense(), torch.eye(3) * size)

    run_ranks(size, body)

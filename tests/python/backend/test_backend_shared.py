"""Tensors in memory that the ranks of a host share: ringwood.empty and the backend's allocator."""

import ctypes
import os
import resource
import signal
from pathlib import Path

import pytest
import ringwood
import torch
import torch.distributed as dist
from backend_ranks import BACKEND, init, run_ranks

pytestmark = pytest.mark.skipif(BACKEND != "ringwood", reason="an addition of ringwood's")


def filled(count: int, value: float, dtype=torch.float32) -> torch.Tensor:
    tensor = ringwood.empty(count, dtype=dtype)
    return tensor.fill_(value)


@pytest.mark.parametrize("size", [2, 3])
def test_collectives_on_shared_tensors(size):
    def body(rank, size):
        for count in (1, 1000, 30_001, 1_000_003):
            for dtype in (torch.float32, torch.bfloat16, torch.int64):
                tensor = filled(count, rank + 1, dtype)
                dist.all_reduce(tensor)
                assert tensor.eq(size * (size + 1) / 2).all()
                dist.broadcast(tensor.fill_(rank), src=1)
                assert tensor.eq(1).all()
                out = ringwood.empty(size * count, dtype=dtype)
                dist.all_gather_into_tensor(out, tensor.fill_(rank))
                assert out.view(size, count).eq(torch.arange(size).unsqueeze(1)).all()
                part = ringwood.empty(count, dtype=dtype)
                dist.reduce_scatter_tensor(part, out)
                assert part.eq(rank * size).all()

    run_ranks(size, body)


def test_views_and_ranks_with_private_tensors_mix():
    def body(rank, size):
        base = filled(400_000, 1.0)
        view = base[7:300_007] if rank == 0 else torch.ones(300_000)
        for _ in range(20):
            view.fill_(rank + 1.0)
            dist.all_reduce(view)
            assert view.eq(6.0).all()
        assert base[:7].eq(1.0).all()
        assert base[300_007:].eq(1.0).all()

    run_ranks(3, body)


def test_two_groups_use_one_buffer_in_turn_and_many_at_once():
    def body(rank, size):
        other = dist.new_group()
        tensor = filled(200_000, 1.0)
        for step in range(10):
            tensor.fill_(rank + step)
            dist.all_reduce(tensor, group=other if step % 2 else None)
            assert tensor.eq(2 * step + 1).all()
        tensors = [filled(50_000 + 1000 * i, rank + i) for i in range(12)]
        groups = [None, other]
        works = [
            dist.all_reduce(t, group=groups[i % 2], async_op=True) for i, t in enumerate(tensors)
        ]
        for i, work in enumerate(works):
            work.wait()
            assert tensors[i].eq(2 * i + 1).all()

    run_ranks(2, body)


def test_memory_is_given_back_and_storages_can_grow():
    def body(rank, size):
        def resident() -> int:
            return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

        addresses = set()
        for _ in range(40):
            tensor = filled(16 << 20, 1.0)  # 64 MiB
            addresses.add(tensor.data_ptr())
            del tensor
        assert len(addresses) < 20
        assert resident() < 2 << 30
        tensor = filled(10_000, rank)
        tensor.resize_(300_000)
        dist.all_reduce(tensor.fill_(rank))
        assert tensor.eq(1).all()

    run_ranks(2, body)


def test_the_backends_allocator():
    def body(rank, size):
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        assert backend.supports_tensor_alloc(torch.device("cpu"))
        tensor = backend.allocate_tensor(100_000, dtype=torch.float64, device=torch.device("cpu"))
        dist.all_reduce(tensor.fill_(rank))
        assert tensor.eq(1).all()

    run_ranks(2, body)


def test_a_forked_process_has_other_memory():
    def body(rank, size):
        tensor = filled(100_000, 5.0)
        child = os.fork()
        if child == 0:
            own = filled(100_000, 9.0)
            os._exit(0 if own.eq(9.0).all() else 1)
        assert os.waitpid(child, 0)[1] == 0
        child = os.fork()
        if child == 0:
            tensor.fill_(1.0)  # ends here
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) in (signal.SIGSEGV, signal.SIGBUS)
        dist.all_reduce(tensor)
        assert tensor.eq(10.0).all()

    run_ranks(2, body)


def child(body) -> int:
    """Runs `body` in a forked process; its exit status."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if body() else 1)
        finally:
            os._exit(2)
    return os.waitpid(pid, 0)[1]


def test_large_tensors_of_any_script_are_shared_and_forks_get_copies():
    def body(rank, size):
        before = torch.zeros(100_000)
        ringwood.share_large_tensors(64 << 10)
        tensors = [torch.full((50_000 + i,), float(i)) for i in range(5)]
        for i, tensor in enumerate(tensors):
            dist.all_reduce(tensor)
            assert tensor.eq(2.0 * i).all()
        dist.all_reduce(before.fill_(1.0))
        assert before.eq(2.0).all()
        maps = Path("/proc/self/maps").read_text()
        assert any(
            int(line.split("-")[0], 16)
            <= tensors[0].data_ptr()
            < int(line.split()[0].split("-")[1], 16)
            for line in maps.splitlines()
            if "ringwood-arena" in line
        )

        def change() -> bool:
            right = all(t.eq(2.0 * i).all() for i, t in enumerate(tensors))
            for tensor in tensors:
                tensor.fill_(-1.0)
            more = torch.ones(200_000)
            return bool(right and more.eq(1.0).all() and tensors[0].eq(-1.0).all())

        for _ in range(3):
            assert child(change) == 0
        assert all(t.eq(2.0 * i).all() for i, t in enumerate(tensors))
        # A child does not see what its parent does later either.
        go, going = os.pipe()

        def look() -> bool:
            os.read(go, 1)
            return bool(tensors[1].eq(2.0).all())

        pid = os.fork()
        if pid == 0:
            os._exit(0 if look() else 1)
        tensors[1].fill_(77.0)
        os.write(going, b"x")
        assert os.waitpid(pid, 0)[1] == 0
        dist.barrier()

    run_ranks(2, body)


def train(rank: int, hidden: int = 512, at_each_step=lambda: None) -> torch.Tensor:
    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 9)
    )
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(rank)
    data = torch.utils.data.TensorDataset(
        torch.randn(2000, 64, generator=generator),
        torch.randint(9, (2000,), generator=generator),
    )
    for inputs, labels in torch.utils.data.DataLoader(data, 100, num_workers=2):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(ddp(inputs), labels).backward()
        optimizer.step()
        at_each_step()
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()


def test_training_with_loaders_on_shared_tensors():
    def body(rank, size):
        plain = train(rank)
        ringwood.share_large_tensors(16 << 10)
        shared = train(rank)
        assert plain.equal(shared)
        return shared.sum().item()

    results = run_ranks(2, body)
    assert results[0] == results[1]


def remapped_bytes() -> int:
    """Of this process's addresses, what lies in the arena although it is not the arena."""
    sizes = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "ringwood-arena" in line:
            begin, end = line.split()[0].split("-")
            sizes.append(int(end, 16) - int(begin, 16))
    return sum(size for size in sizes if size != max(sizes))


# malloc() maps blocks of more than 32 MiB one by one, whatever it has done before.
MAPPED = 9_000_000


@pytest.mark.fresh
def test_remapped_tensors_and_forks(monkeypatch):
    monkeypatch.setenv("RINGWOOD_REMAP", "1M")

    def body(rank, size):
        tensor = torch.zeros(MAPPED)
        address = tensor.data_ptr()
        for step in range(6):
            tensor.fill_(rank + step)
            dist.all_reduce(tensor)
            assert tensor.eq(2 * step + 1).all()
        assert tensor.data_ptr() == address
        assert remapped_bytes() > 4 * MAPPED - 8192

        def change() -> bool:
            right = bool(tensor.eq(11.0).all())
            tensor.fill_(-1.0)
            return right and remapped_bytes() == 0

        assert child(change) == 0
        assert tensor.eq(11.0).all()
        # Freed, resized, and made again: what is not where it was is copied.
        for count in (MAPPED + 5000, MAPPED, 2 * MAPPED, MAPPED + 5000):
            tensor.resize_(count).fill_(rank)
            dist.all_reduce(tensor)
            assert tensor.eq(1.0).all()
            tensor = torch.full((count - 1,), float(rank))
            dist.all_reduce(tensor)
            assert tensor.eq(1.0).all()

    run_ranks(2, body)


@pytest.mark.fresh
def test_training_with_loaders_on_remapped_buckets(monkeypatch):
    def body(rank, size):
        # As MALLOC_MMAP_THRESHOLD_=1048576 in the environment: nothing is remapped of heaps.
        m_mmap_threshold = -3
        assert ctypes.CDLL(None).mallopt(m_mmap_threshold, 1 << 20) == 1
        seen = []
        weights = train(rank, 8_000, lambda: seen.append(remapped_bytes()))
        return weights.double().sum().item(), max(seen)

    plain = run_ranks(2, body)
    monkeypatch.setenv("RINGWOOD_REMAP", "1M")
    remapped = run_ranks(2, body)
    assert [total for total, _ in plain] == [total for total, _ in remapped]
    assert plain[0][1] == 0
    assert min(count for _, count in remapped) > 1 << 20


def test_shapes_and_types():
    assert ringwood.empty(2, 3).shape == (2, 3)
    assert ringwood.empty((4, 5), dtype=torch.int8).shape == (4, 5)
    assert ringwood.empty(0).numel() == 0
    assert ringwood.empty(3).dtype == torch.get_default_dtype()
    with pytest.raises(ValueError, match="shape"):
        ringwood.empty(-1)


def test_more_than_there_is():
    def body(rank, size):
        with pytest.raises(RuntimeError, match="can't allocate memory"):  # ordinary neither
            ringwood.empty(1 << 50)

    run_ranks(1, body)


def arenas() -> list[int]:
    """Bytes of each mapping of this process that is an arena."""
    sizes = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "ringwood-arena" in line:
            begin, end = line.split()[0].split("-")
            sizes.append(int(end, 16) - int(begin, 16))
    return sizes


def told(text: str) -> int:
    """How often the log of this rank says so."""
    return Path("/proc/self/fd/2").resolve().read_text().count(text)


def limited_addresses() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 46, resource.RLIM_INFINITY))


def limited_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))


@pytest.mark.parametrize("limit", [limited_addresses, limited_files])
def test_without_memory_to_share_ordinary_memory_is_used(limit, monkeypatch):
    monkeypatch.setenv("RINGWOOD_SHARE_TENSORS", "64K")

    def body(rank, size):
        limit()
        init(rank, size, int(os.environ["MASTER_PORT"]))
        assert arenas() == []
        ringwood.share_large_tensors(32 << 10)
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        cpu = torch.device("cpu")
        for tensor in (
            torch.zeros(100_000),
            ringwood.empty(100_000),
            backend.allocate_tensor(100_000, dtype=torch.float32, device=cpu),
        ):
            for _ in range(3):
                dist.all_reduce(tensor.fill_(rank + 1))
                assert tensor.eq(3).all()
            tensor.resize_(300_000).fill_(1)
        assert told("ulimit -v unlimited") == 1

    run_ranks(2, body, group=False)


def test_when_the_memory_to_share_is_full_ordinary_memory_is_used():
    def body(rank, size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, resource.RLIM_INFINITY))
        init(rank, size, int(os.environ["MASTER_PORT"]))
        small = ringwood.empty(1000)
        assert max(arenas()) == 64 << 20
        rest = ringwood.empty(60 << 20, dtype=torch.uint8)
        ringwood.share_large_tensors(64 << 10)
        tensors = [ringwood.empty(2_000_000), torch.zeros(2_000_000), small]
        for tensor in tensors:
            dist.all_reduce(tensor.fill_(rank + 1))
            assert tensor.eq(3).all()
        assert told("has no room") == 1
        del rest

    run_ranks(2, body, group=False)

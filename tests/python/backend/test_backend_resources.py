"""What a destroyed group leaves behind in its process: nothing."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from backend_ranks import BACKEND, run_ranks, seconds
from processes import PATIENCE_S
from ringwood import _autoload

pytestmark = pytest.mark.skipif(BACKEND != "ringwood", reason="what ringwood's groups cost")


@dataclass(frozen=True)
class Usage:
    """Of this process; the arena is left out, which is the process's and not a group's."""

    descriptors: int
    threads: int
    shared_memory: int  # bytes that are mapped
    names: int  # in /dev/shm

    @staticmethod
    def now() -> "Usage":
        files = []
        for entry in Path("/proc/self/fd").iterdir():
            try:
                files.append(str(entry.readlink()))
            except OSError:  # the one that lists them
                continue
        mapped = 0
        for line in Path("/proc/self/maps").read_text().splitlines():
            if "memfd:" in line or "/dev/shm" in line:
                begin, end = line.split()[0].split("-")
                mapped += (int(end, 16) - int(begin, 16)) * ("ringwood-arena" not in line)
        return Usage(
            descriptors=sum("ringwood-arena" not in name for name in files),
            threads=len(os.listdir("/proc/self/task")),
            shared_memory=mapped,
            names=len(os.listdir("/dev/shm")),
        )


def expect_usage(before: Usage, what: str) -> None:
    """At once, but for threads: one that has been let go takes a moment to end."""
    now = Usage.now()
    deadline = time.monotonic() + PATIENCE_S
    while now.threads > before.threads and time.monotonic() < deadline:
        time.sleep(0.01)
        now = Usage(now.descriptors, Usage.now().threads, now.shared_memory, now.names)
    assert now == before, what


def use(group) -> list:
    """Calls of each kind; what a user may still hold when the group is destroyed."""
    tensor = torch.ones(1000)
    dist.all_reduce(tensor, group=group)
    assert tensor.eq(dist.get_world_size(group)).all()
    waited = dist.all_reduce(tensor, group=group, async_op=True)
    waited.wait()
    work = dist.all_reduce(tensor, group=group, async_op=True)
    future = work.get_future().then(lambda done: done.value())
    future.wait()
    return [waited, work, future]


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def one_after_the_other(count: int, ranks: list[int], before: Usage) -> None:
    for number in range(count):
        group = dist.new_group(ranks)
        held = use(group) if group is not dist.GroupMember.NON_GROUP_MEMBER else None
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(group)
        expect_usage(before, f"group {number} and its calls are still held")
        del held, group
    expect_usage(before, "nothing is held")


def all_at_once(count: int, ranks: list[int], before: Usage) -> None:
    groups = [dist.new_group(ranks) for _ in range(count)]
    groups = [group for group in groups if group is not dist.GroupMember.NON_GROUP_MEMBER]
    held = [use(group) for group in groups]
    if groups:
        assert Usage.now().descriptors > before.descriptors
    for group in groups:
        dist.destroy_process_group(group)
    expect_usage(before, "all groups and their calls are still held")
    del held, groups
    expect_usage(before, "nothing is held")


@pytest.mark.parametrize("ranks", [[0, 1, 2], [0, 2]], ids=["all", "some"])
@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("life", [one_after_the_other, all_at_once])
def test_destroyed_groups_leave_nothing(life, count, ranks):
    def body(rank, size):
        one_after_the_other(1, list(range(size)), Usage.now())  # torch's own threads, and malloc's
        before, memory = Usage.now(), resident()
        life(count, ranks, before)
        assert resident() - memory < 16 << 20
        dist.barrier()

    run_ranks(3, body)


def destroyed() -> None:
    dist.destroy_process_group()


def aborted() -> None:
    dist.distributed_c10d._abort_process_group()


@pytest.mark.parametrize("end", [destroyed, aborted])
def test_the_default_group_leaves_nothing(end, tmp_path):
    def body(rank, size):
        store = dist.FileStore(str(tmp_path / "store"), size)  # has no descriptors
        before = Usage.now()
        for life in range(3):
            prefixed = dist.PrefixStore(str(life), store)
            dist.init_process_group(BACKEND, store=prefixed, rank=rank, world_size=size)
            held = use(None)
            prefixed.set(f"done {rank}", "")  # an abort fails the barrier of ranks still inside
            prefixed.wait([f"done {other}" for other in range(size)])
            end()
            del held
            expect_usage(before, f"life {life}")

    run_ranks(2, body, group=False)


def test_a_group_that_nobody_holds_leaves_nothing(tmp_path):
    def body(rank, size):
        store = dist.FileStore(str(tmp_path / "store"), size)
        module = _autoload._module()
        before = Usage.now()
        for life in range(3):
            prefixed = dist.PrefixStore(str(life), store)
            group = module.create(prefixed, rank, size, seconds(PATIENCE_S), "forgotten", [])
            group.barrier().wait()
            del group
            expect_usage(before, f"life {life}")

    run_ranks(2, body, group=False)


def test_a_destroyed_group_says_so():
    def body(rank, size):
        group = dist.new_group()
        backend = group._get_backend(torch.device("cpu"))
        dist.destroy_process_group(group)
        with pytest.raises(dist.DistBackendError, match=r"was shut down \(destroy_process_group"):
            backend.barrier()
        backend.abort()
        backend.shutdown()
        dist.barrier()

    run_ranks(2, body)

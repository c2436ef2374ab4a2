"""Ranks that wait for a late rank 0 in torch's store."""

import multiprocessing
import os
import time

import torch.distributed as dist
from backend_ranks import BACKEND, run_ranks, seconds
from processes import NEVER_S, PATIENCE_S

FORK = multiprocessing.get_context("fork")
# Several times as long as the waits that torch's store once was asked for, one after the other.
LATE_S = 1.5
LOOKS = 10


class ToldStore(dist.Store):
    """Another store, which tells each call before it is made."""

    def __init__(self, store, tell) -> None:
        super().__init__()
        self.store, self.tell = store, tell

    def set(self, key, value):
        self.tell("set", key)
        self.store.set(key, value)

    def get(self, key):
        self.tell("get", key)
        return self.store.get(key)

    def add(self, key, value):
        self.tell("add", key)
        return self.store.add(key, value)

    def check(self, keys):
        self.tell("check", *keys)
        return self.store.check(keys)

    def wait(self, keys, *timeout):
        self.tell("wait", *keys)
        self.store.wait(keys, *timeout)

    def delete_key(self, key):
        self.tell("delete_key", key)
        return self.store.delete_key(key)

    def num_keys(self):
        return self.store.num_keys()


def tcp_store(rank: int) -> dist.TCPStore:
    port = int(os.environ["MASTER_PORT"])
    return dist.TCPStore("127.0.0.1", port, None, rank == 0, seconds(NEVER_S))


def start(store, rank: int, size: int) -> None:
    dist.init_process_group(
        BACKEND, store=store, rank=rank, world_size=size, timeout=seconds(NEVER_S)
    )
    dist.barrier()


def test_a_rank_that_waits_asks_and_never_blocks_in_the_store():
    asked_often = FORK.Event()

    def body(rank, size):
        calls = []

        def tell(*call) -> None:
            calls.append(call)
            if call[0] == "wait" or len(calls) >= LOOKS:
                asked_often.set()

        store = tcp_store(rank)
        if rank == 0:
            assert asked_often.wait(PATIENCE_S)
            start(store, rank, size)
            return []
        start(ToldStore(store, tell), rank, size)
        return [call for call in calls if call[0] == "wait"]

    assert run_ranks(2, body, group=False) == [[], []]


def test_ranks_wait_for_rank_zero_in_silence(tmp_path):
    begun = FORK.Barrier(3)

    def body(rank, size):
        store = tcp_store(rank)
        log = tmp_path / str(rank)
        os.dup2(os.open(log, os.O_CREAT | os.O_WRONLY), 2)
        begun.wait(PATIENCE_S)
        if rank == 0:
            time.sleep(LATE_S)  # there is no event for what is not said
        start(store, rank, size)
        return log.read_text()

    assert run_ranks(3, body, group=False) == [""] * 3

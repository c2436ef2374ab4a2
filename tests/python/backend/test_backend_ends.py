"""How groups begin badly and how processes end: ranks that do not come, masters, ports, exits."""

import json
import multiprocessing
import os
import re
import socket
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from backend_ranks import BACKEND, init, run_ranks, seconds
from processes import NEVER_S, held_port
from wakeups import growing_limit, measures_again

FORK = multiprocessing.get_context("fork")
ones = torch.ones


def backend():
    return dist.group.WORLD._get_backend(torch.device("cpu"))


def failed_init(rank: int, size: int, port: int, timeout_s: float) -> str:
    with pytest.raises(dist.DistError) as raised:
        init(rank, size, port, timeout_s)
    return str(raised.value)


@measures_again
def test_rank_that_never_comes_is_named():
    def check(limit_s):
        def body(rank, size):
            if rank == 2:
                return None
            init(rank, 2, int(os.environ["MASTER_PORT"]))
            store = dist.PrefixStore("late", dist.distributed_c10d._get_default_store())
            module = sys.modules["ringwood._autoload"]._module()
            with pytest.raises(dist.DistNetworkError) as raised:
                module.create(store, rank, 3, seconds(limit_s), "late", [])
            dist.barrier()
            return str(raised.value)

        for message in run_ranks(3, body, group=False)[:2]:
            assert re.search(r"\brank 2\b", message), message
            assert "rank 1" not in message.partition("missing")[2], message

    growing_limit(check)  # ranks 0 and 1 have to come within it


@measures_again
def test_ranks_that_expect_different_sizes():
    def check(limit_s):
        def body(rank, size):
            init(rank, 2, int(os.environ["MASTER_PORT"]))
            store = dist.PrefixStore("sizes", dist.distributed_c10d._get_default_store())
            module = sys.modules["ringwood._autoload"]._module()
            with pytest.raises((dist.DistError, ValueError)) as raised:
                module.create(store, rank, 2 + rank, seconds(limit_s), "sizes", [])
            dist.barrier()
            return str(raised.value)

        messages = run_ranks(2, body, group=False)
        assert any("2" in message and "3" in message for message in messages), messages

    growing_limit(check)  # both have to come within it, and one waits for a third


def test_master_that_cannot_be_reached():
    def body(rank, size):
        return failed_init(1, 2, held_port(), 1)  # where nobody listens

    assert "127.0.0.1" in run_ranks(1, body, group=False)[0]


def test_port_that_is_in_use():
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()

        def body(rank, size):
            return failed_init(0, 2, taken.getsockname()[1], NEVER_S)

        assert "EADDRINUSE" in run_ranks(1, body, group=False)[0]


def test_held_ports_are_for_those_who_know_them():
    port = held_port()
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind(("127.0.0.1", port))
    store = dist.TCPStore("127.0.0.1", port, is_master=True)
    assert (store.port, held_port() != port) == (port, True)


# How an interpreter ends while its group is alive: what it does last, and its exit status. None
# waits for a time-out: that of the group is an hour.
ENDINGS = [
    ("pass", 0),
    ("work = dist.all_reduce(torch.ones(1 << 20), async_op=True)", 0),
    ("work = dist.barrier(async_op=True) if rank == 0 else None", 0),
    ("future = dist.barrier(async_op=True).get_future().then(lambda f: print('called'))", 0),
    ("groups = [dist.new_group() for _ in range(5)]; dist.barrier(groups[3])", 0),
    ("threading.Thread(target=dist.recv, args=[torch.ones(1)], daemon=True).start()", 0),
    (
        "def receive():\n"
        "    try: dist.recv(torch.ones(1))\n"
        "    except Exception: pass\n"
        "threading.Thread(target=receive, daemon=True).start(); time.sleep(0.05)",
        0,
    ),
    ("dist.barrier(async_op=True).get_future().then(lambda f: time.sleep(0.5))", 0),
    ("import ringwood; ringwood.share_large_tensors(); tensor = torch.ones(1 << 20)", 0),
    ("dist.distributed_c10d._abort_process_group()", 0),
    ("sys.exit(3)", 3),
    ("raise KeyError('a bug')", 1),
    ("dist.destroy_process_group(dist.new_group([0, 1]))", 0),
    ("dist.destroy_process_group()", 0),
]
# Imports torch once; every ending is that of two forked children, each with an interpreter to end.
INTERPRETERS = r"""
import datetime, gc, json, os, socket, sys, threading, time, torch, torch.distributed as dist
gc.freeze()  # what torch has made of its own costs each end half a second
backend, endings = sys.argv[1], json.loads(sys.argv[2])
for number, (last, _) in enumerate(endings):
    holder = socket.socket()  # bound until the next is made, so that nobody else gets the port
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("", 0))
    port = holder.getsockname()[1]
    children = []
    for rank in range(2):
        child = os.fork()
        if child == 0:
            break
        children.append(child)
    if child == 0:
        dist.init_process_group(
            backend, init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2,
            timeout=datetime.timedelta(hours=1))
        dist.all_reduce(torch.ones(4))
        # An end is not to overtake the sum of the other rank.
        store = dist.distributed_c10d._get_default_store()
        store.set(f"summed {rank}", "")
        store.wait([f"summed {1 - rank}"])
        exec(last)
        break
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    print(json.dumps([last, statuses]), flush=True)
"""


@pytest.mark.timeout(600)  # of 28 interpreters, each of which has seconds to end beside other work
def test_end_of_the_interpreter():
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETERS, BACKEND, json.dumps(ENDINGS)],
        capture_output=True,
        text=True,
        timeout=590,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(lines) == len(ENDINGS), done.stderr
    for (last, status), (what, statuses) in zip(ENDINGS, lines, strict=True):
        assert what == last
        assert statuses == [status, status], (last, done.stderr)
    assert "terminate called" not in done.stderr
    assert "Fatal Python error" not in done.stderr

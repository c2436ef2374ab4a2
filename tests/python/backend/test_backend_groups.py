"""Making groups: registration, subgroups, several lives, options, debug levels, versions."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from backend_ranks import BACKEND, init, new_group_everywhere, run_ranks, seconds
from processes import NEVER_S, PATIENCE_S, ROOT, held_port

CPU = torch.device("cpu")


def python(code: str, **environment) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_name_is_known_after_importing_the_package():
    answer = python(
        "import ringwood, sys, torch.distributed as dist\n"
        "print(dist.Backend('ringwood'), any(m.startswith('ringwood._C') for m in sys.modules))\n"
        "print(dist.get_default_backend_for_device('cpu'))",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert answer.split() == ["ringwood", "False", "gloo"]


def test_name_is_known_without_importing_the_package():
    answer = python("import torch.distributed as dist; print(dist.Backend('ringwood'))")
    assert answer.split() == ["ringwood"]


def test_registration_loads_little_and_is_idempotent():
    answer = python(
        "import sys, torch.distributed as dist\n"
        "before = set(sys.modules)\n"
        "import ringwood\n"
        "print(*(set(sys.modules) - before), sep=',')\n"
        "for _ in range(3): ringwood.register()\n"
        "print(dist.Backend.backend_list.count('ringwood'))",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    ).split()
    assert all(name.startswith("ringwood") for name in answer[0].split(",")), answer
    assert "ringwood._C" not in answer[0]
    assert answer[1] == "1"


def test_registration_never_raises(monkeypatch, caplog):
    from ringwood import _autoload

    monkeypatch.delattr(dist.Backend, "RINGWOOD")

    def broken(*_, **__):
        raise OSError("no")

    monkeypatch.setattr(dist.Backend, "register_backend", broken)
    _autoload.register()
    assert "could not be registered: no" in caplog.text


def test_other_version_of_torch_is_refused(monkeypatch):
    from ringwood import _autoload, _built_for

    monkeypatch.setattr(_built_for, "TORCH", ("2.11", "2.12"))
    found = ".".join(torch.__version__.split(".")[:2])
    with pytest.raises(RuntimeError, match=f"torch 2.11, 2.12, found {found}: ") as raised:
        _autoload._module.__wrapped__()
    assert "pip install --no-build-isolation --no-deps " in str(raised.value)


def test_no_printed_command_makes_pip_change_torch():
    """Without build isolation it is the user's own torch; its dependencies must be left alone."""
    texts = [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *ROOT.glob("torch-bridge/**/*.*")]
    lines = [
        (path.name, line)
        for path in texts
        if path.is_file() and path.suffix != ".pyc"
        for line in path.read_text().splitlines()
        if "--no-build-isolation" in line and "pip install" in line
    ]
    assert lines
    assert [line for line in lines if "--no-deps" not in line[1]] == []


class Unknown:
    pass


def own_options(timeout_s: float):
    options = torch._C._distributed_c10d.Backend.Options(BACKEND)
    options._timeout = seconds(timeout_s)
    return options


# What is given, and what is said about it; None: accepted.
OPTIONS = [
    (lambda: None, None),
    (lambda: own_options(NEVER_S), None),
    (lambda: torch._C._distributed_c10d.Backend.Options("nccl"), None),
    (lambda: own_options(7), "0:00:07, and the group one of 1:00:00: give the timeout as"),
    (dist.ProcessGroupGloo._Options, "takes no pg_options, and got .*_Options: leave"),
    (lambda: {"tolerance": 0.5}, "takes no pg_options, and got dict: leave"),
    (Unknown, "takes no pg_options, and got Unknown: leave"),
]


@pytest.mark.skipif(BACKEND != "ringwood", reason="what ringwood says")
@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_options_of_a_group(number):
    make, text = OPTIONS[number]

    def body(rank, size):
        def new_group():
            return dist.new_group(pg_options=make(), timeout=seconds(NEVER_S))

        if text:
            with pytest.raises((TypeError, ValueError), match=text):
                new_group()
        else:
            dist.barrier(new_group())

    run_ranks(2, body)


@pytest.mark.skipif(BACKEND != "ringwood", reason="a function of ringwood's")
def test_monitored_barrier_without_a_group():
    import ringwood

    with pytest.raises(ValueError, match=r"no process group yet; call .*init_process_group"):
        ringwood.monitored_barrier()

    def body(rank, size):
        group = dist.new_group([1])
        if rank == 0:
            with pytest.raises(ValueError, match="not a member of the group"):
                ringwood.monitored_barrier(group)
        else:
            ringwood.monitored_barrier(group)

    run_ranks(2, body)


def test_names_and_options():
    def body(rank, size):
        backend = dist.group.WORLD._get_backend(CPU)
        assert dist.get_backend() == BACKEND
        assert backend.name() == BACKEND
        assert (backend.rank(), backend.size()) == (rank, size)
        assert not backend.supports_splitting
        assert not backend.supports_coalescing
        assert backend._get_sequence_number_for_group() == 0
        dist.barrier()
        assert backend._get_sequence_number_for_group() == 1
        backend.set_timeout(seconds(NEVER_S))

    run_ranks(2, body)


def test_subgroups():
    def body(rank, size):
        evens, odds = dist.new_group([0, 2]), dist.new_group([1, 3])
        mine = evens if rank % 2 == 0 else odds
        tensor = torch.full((3,), float(rank))
        dist.all_reduce(tensor, group=mine)
        assert tensor.tolist() == [2.0 if rank % 2 == 0 else 4.0] * 3
        objects = [None, None]
        dist.all_gather_object(objects, rank, group=mine)
        assert objects == [rank % 2, rank % 2 + 2]
        source = rank % 2 + 2
        dist.broadcast(tensor.fill_(rank), src=source, group=mine)
        assert tensor[0] == source
        dist.barrier()
        dist.destroy_process_group(mine)
        dist.all_reduce(tensor)
        pairs, _ = dist.new_subgroups(group_size=2)
        dist.barrier(pairs)

    run_ranks(4, body)


# Errors of all kinds: of the caller, between ranks, of a group that has ended.
ERRORS = [
    lambda group, rank: dist.all_reduce(torch.ones(1).expand(3), group=group),
    lambda group, rank: dist.all_to_all_single(torch.ones(3), torch.ones(3), group=group),
    lambda group, rank: dist.all_gather_into_tensor(torch.ones(9), torch.ones(4), group=group),
    lambda group, rank: dist.all_reduce(torch.ones(2, dtype=torch.uint16), group=group),
    lambda group, rank: group._get_backend(CPU).broadcast([], dist.BroadcastOptions()),
    lambda group, rank: dist.all_reduce(torch.ones(rank), group=group),
    lambda group, rank: dist.all_reduce(torch.ones(1), group=group, async_op=True).wait(),
    lambda group, rank: group._get_backend(CPU).monitored_barrier(),
]


@pytest.mark.parametrize("description", [None, "tensor parallel"])
def test_errors_name_the_group_and_its_global_ranks(description):
    def body(rank, size):
        group = new_group_everywhere([1, 2], group_desc=description)
        if rank > 0:
            name = group.group_name
            quoted = f"group '{description}' ({name})" if description else f"group '{name}'"
            for error in ERRORS:
                with pytest.raises((RuntimeError, ValueError, TypeError)) as raised:
                    error(group, rank)
                text = str(raised.value)
                assert f"[{quoted}: its ranks 0, 1, ... are global ranks 1, 2]" in text
        dist.barrier()
        with pytest.raises(RuntimeError) as raised:
            group_of_all = dist.group.WORLD
            group_of_all._get_backend(CPU).broadcast([], dist.BroadcastOptions())
        assert "[group 'default_pg' (" in str(raised.value)
        assert "global ranks" not in str(raised.value)

    run_ranks(3, body)


def test_errors_at_the_start_name_the_group():
    def body(rank, size):
        module = sys.modules["ringwood._autoload"]._module()
        store = dist.PrefixStore("late", dist.distributed_c10d._get_default_store())
        with pytest.raises(dist.DistNetworkError, match=r"\[group 'late'\]"):
            module.create(store, 0, 2, seconds(0.3), "late", [])

    run_ranks(1, body)


def test_many_groups_come_and_go():
    def body(rank, size):
        def threads() -> int:
            return len(os.listdir("/proc/self/task"))

        def files() -> int:
            return len(os.listdir("/proc/self/fd"))

        counts = []
        for _ in range(30):
            group = dist.new_group([0, 1])
            tensor = torch.ones(1)
            dist.all_reduce(tensor, group=group)
            assert tensor.item() == 2.0
            dist.destroy_process_group(group)
            del group
            counts.append((threads(), files()))
        deadline = time.monotonic() + PATIENCE_S  # a thread that is let go takes a moment to end
        while threads() > min(counts)[0] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert threads() <= min(counts)[0], counts
        assert counts[-1][1] <= counts[5][1], counts

    run_ranks(2, body, timeout_s=PATIENCE_S)


def test_several_lives_in_one_process():
    # A port beside a free one is often not free: connections that ended a minute ago still hold it.
    ports = [held_port() for _ in range(3)]

    def body(rank, size):
        for life, port in enumerate(ports):
            init(rank, size, port)
            tensor = torch.full((3,), float(life))
            dist.all_reduce(tensor)
            assert tensor.tolist() == [2.0 * life] * 3
            dist.destroy_process_group()
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            dist.all_reduce(torch.ones(1))

    run_ranks(2, body, group=False)


@pytest.mark.parametrize("kind", ["file", "hash", "prefix", "tcp"])
def test_stores(kind, tmp_path):
    def body(rank, size):
        if kind == "file":
            store = dist.FileStore(str(tmp_path / "store"), size)
        elif kind == "hash":
            store = dist.HashStore()
        else:
            port = int(os.environ["MASTER_PORT"])
            store = dist.TCPStore("localhost", port, size, rank == 0, seconds(NEVER_S))
        if kind == "prefix":
            store = dist.PrefixStore("a", dist.PrefixStore("b", store))
        dist.init_process_group(
            BACKEND, store=store, rank=rank, world_size=size, timeout=seconds(NEVER_S)
        )
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        assert tensor.item() == size

    run_ranks(1 if kind == "hash" else 2, body, group=False)


def test_store_is_left_clean(tmp_path):
    def body(rank, size):
        store = dist.FileStore(str(tmp_path / "store"), size)
        # Another user of the same store, so that the file outlives the group.
        keep = dist.FileStore(str(tmp_path / "store"), size)
        dist.init_process_group(BACKEND, store=store, rank=rank, world_size=size)
        dist.barrier()
        dist.destroy_process_group()
        return keep.num_keys()

    assert max(run_ranks(2, body, group=False)) < 10


def test_mixed_with_gloo_in_one_process():
    def body(rank, size):
        gloo = dist.new_group(backend="gloo")
        for group in (gloo, None):
            tensor = torch.ones(2)
            dist.all_reduce(tensor, group=group)
            assert tensor.tolist() == [2.0] * 2

    run_ranks(2, body)


def test_debug_level_detail():
    def body(rank, size):
        dist.set_debug_level(dist.DebugLevel.DETAIL)
        init(rank, size, int(os.environ["MASTER_PORT"]))
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [2.0] * 3
        dist.all_gather_into_tensor(torch.zeros(6), tensor)
        dist.barrier()
        with pytest.raises(RuntimeError, match="Detected mismatch between collectives"):
            dist.all_reduce(torch.ones(rank + 1))

    run_ranks(2, body, group=False)


def test_library_keeps_its_symbols_to_itself():
    from ringwood import _autoload

    library = Path(_autoload._module().__file__)
    names = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    ).stdout
    (name,) = [line.split()[-1] for line in names.splitlines()]
    assert name.startswith("PyInit__C_")

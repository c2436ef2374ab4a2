"""What torch's tools see of our calls: `torchfrtrace`, `_dump_fr_trace`, a profiler's trace."""

import contextlib
import json
import multiprocessing
import pickle
import subprocess
import sys
import time

import pytest
import torch
import torch.distributed as dist
from backend_ranks import BACKEND, run_ranks, seconds
from processes import PATIENCE_S
from wakeups import growing_limit, measures_again

pytestmark = pytest.mark.skipif(BACKEND != "ringwood", reason="of our own recorder")
FORK = multiprocessing.get_context("fork")


def torchfrtrace(folder) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", folder],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def call_everything(rank: int, size: int) -> None:
    tensor = torch.ones(size, 3)
    rows = [torch.empty(3) for _ in range(size)]
    row = torch.ones(3)
    dist.all_reduce(tensor)
    dist.all_reduce(tensor, async_op=True).wait()
    dist.broadcast(tensor, 1)
    dist.reduce(tensor, 1)
    dist.all_gather(rows, row)
    dist.all_gather_into_tensor(tensor, row)
    dist.reduce_scatter(row, list(tensor))
    dist.reduce_scatter_tensor(row, tensor)
    dist.all_to_all(rows, list(tensor))
    dist.all_to_all_single(torch.empty(size), torch.ones(size))
    dist.gather(row, rows if rank == 0 else None)
    dist.scatter(row, rows if rank == 0 else None)
    if rank == 0:
        dist.send(row, 1)
        dist.recv(row)
    if rank == 1:
        dist.recv(row, 0)
        dist.send(row, 0)
    dist.barrier()


NAMES = [
    *["all_reduce", "all_reduce", "broadcast", "reduce", "all_gather", "_all_gather_base"],
    *["reduce_scatter", "_reduce_scatter_base", "all_to_all", "all_to_all", "gather", "scatter"],
]


@pytest.mark.filterwarnings("ignore")
def test_torchfrtrace_finds_nothing_in_a_healthy_job(tmp_path):
    def body(rank, size):
        import ringwood

        call_everything(rank, size)
        ringwood.dump_flight_recorder(f"{tmp_path}/rank_")
        return pickle.loads(torch._C._distributed_c10d._dump_fr_trace())

    began_ns = time.time_ns()
    dumps = run_ranks(3, body)
    ended_ns = time.time_ns()
    told = torchfrtrace(tmp_path)
    assert "Collective sequence number" not in told
    assert "error" not in told.lower()
    for rank, dump in enumerate(dumps):
        assert dump["pg_config"]["0"]["ranks"] == "[0, 1, 2]"
        assert dump["comm_lib_version"].startswith("ringwood ")
        messages = [["send 0->1", "recv 0<-1"], ["recv 1<-0", "send 1->0"], []][rank]
        names = [entry["profiling_name"] for entry in dump["entries"]]
        assert names == [f"gloo:{name}" for name in [*NAMES, *messages, "barrier"]]
        collectives = [e["collective_seq_id"] for e in dump["entries"] if not e["is_p2p"]]
        assert collectives == list(range(1, 14))
        assert dump["pg_status"]["0"]["last_completed_collective"] == 13
        for entry in dump["entries"]:
            assert (entry["state"], entry["retired"]) == ("completed", True)
            assert entry["time_created_ns"] <= entry["time_discovered_completed_ns"]
            assert began_ns <= entry["time_created_ns"] <= ended_ns
        (first, gathered) = dump["entries"][0], dump["entries"][4]
        assert (first["input_sizes"], first["input_dtypes"]) == ([[3, 3]], ["Float"])
        assert (gathered["input_sizes"], gathered["output_sizes"]) == ([[3]], [[3, 3]])


def test_torchfrtrace_names_the_rank_that_calls_something_else(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", f"{tmp_path}/rank_")
    together = FORK.Barrier(3)

    def body(rank, size):
        dist.all_reduce(torch.ones(4))
        together.wait()  # the error of two is not to meet the third in its first call
        with contextlib.suppress(dist.DistBackendError):
            dist.barrier() if rank == 1 else dist.all_reduce(torch.ones(7))

    run_ranks(3, body)
    told = torchfrtrace(tmp_path)
    assert "Collective sequence number: 2 has errors" in told
    assert "Culprit rank 1; Error type: COLLECTIVE_TYPE_MISMATCH" in told
    assert "input sizes: [[7]]" in told


@measures_again
def test_torchfrtrace_names_the_rank_that_skips_a_collective(tmp_path, monkeypatch):
    """It makes no further call, and its dump is there all the same."""
    monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", f"{tmp_path}/rank_")

    def check(limit_s):
        over = FORK.Barrier(3)

        def body(rank, size):
            dist.all_reduce(torch.ones(4))
            if rank != 1:
                dist.group.WORLD._get_backend(torch.device("cpu")).set_timeout(seconds(limit_s))
                with pytest.raises(dist.DistBackendError):
                    dist.all_reduce(torch.ones(7))
            over.wait(PATIENCE_S)
            dist.destroy_process_group()

        run_ranks(3, body)
        told = torchfrtrace(tmp_path)
        assert "Not all ranks joining collective, sequence number: 2" in told
        assert "missing ranks: {1}" in told

    growing_limit(check)  # ranks 0 and 2 have to come within it


def test_states_are_those_of_what_is_pending():
    def body(rank, size):
        if rank == 0:
            work = dist.all_reduce(torch.ones(2), async_op=True)
            active = pickle.loads(torch._C._distributed_c10d._dump_fr_trace(onlyActive=True))
            (entry,) = active["entries"]
            assert (entry["state"], entry["retired"]) == ("started", False)
            assert entry["time_discovered_completed_ns"] is None
            dist.send(torch.ones(1), 1)
            work.wait()
        else:
            dist.recv(torch.ones(1), 0)
            dist.all_reduce(torch.ones(2))
        told = json.loads(torch._C._distributed_c10d._dump_fr_trace_json(onlyActive=True))
        assert told["entries"] == []

    run_ranks(2, body)


@pytest.mark.fresh
def test_the_size_of_the_buffer_is_torchs_setting(monkeypatch):
    def body(rank, size):
        for _ in range(9):
            dist.all_reduce(torch.ones(2))
        dump = pickle.loads(torch._C._distributed_c10d._dump_fr_trace())
        return [entry["collective_seq_id"] for entry in dump["entries"]]

    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "4")
    assert run_ranks(2, body) == [[6, 7, 8, 9]] * 2
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "0")
    assert run_ranks(2, body) == [[], []]


@pytest.mark.fresh
def test_groups_that_have_ended_are_forgotten(monkeypatch):
    """With the last call of theirs that is kept. The job's own group lives."""

    def body(rank, size):
        dist.all_reduce(torch.ones(2))
        for _ in range(100):
            group = dist.new_group([0, 1])
            dist.all_reduce(torch.ones(2), group=group)
            dist.destroy_process_group(group)
        dump = pickle.loads(torch._C._distributed_c10d._dump_fr_trace())
        assert len(dump["entries"]) == 4
        for entry in dump["entries"]:
            assert dump["pg_config"][entry["process_group"][0]]["ranks"] == "[0, 1]"
            assert str(entry["pg_id"]) in dump["pg_status"]
        assert len(dump["pg_config"]) < 80
        assert "0" in dump["pg_config"]

    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "4")
    run_ranks(2, body)


@pytest.mark.filterwarnings("ignore")
def test_a_coalesced_call_has_equal_inputs_and_outputs():
    """Also where only a part of its tensors is kept."""

    def body(rank, size):
        dist.all_reduce_coalesced([torch.ones(1, 1, 1, 1, 1, 2) for _ in range(5)])
        (entry,) = pickle.loads(torch._C._distributed_c10d._dump_fr_trace())["entries"][-1:]
        assert entry["input_sizes"] == entry["output_sizes"] == [[1, 1, 1, 1, 1, 2]] * 2

    run_ranks(2, body)


def test_torchs_own_groups_keep_their_numbers():
    from ringwood._flight import number_behind

    ours = {"pg_status": {"0": "a", "1": "b"}, "entries": [{"pg_id": 1}]}
    number_behind(ours, {"pg_status": {"0": "x", "2": "y"}, "entries": [{"pg_id": 2}]})
    assert ours == {"pg_status": {"3": "a", "4": "b"}, "entries": [{"pg_id": 4}]}


def test_a_profile_has_what_its_tools_read(tmp_path):
    def body(rank, size):
        group = dist.new_group([0, 1], group_desc="pair")
        file = tmp_path / f"{rank}.json"
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            dist.all_reduce(torch.ones(8, dtype=torch.bfloat16), group=group)
            dist.broadcast(torch.ones(3), 0, async_op=True).wait()
            dist.all_to_all_single(
                torch.empty(3), torch.ones(3), [1, 2][:: 1 - 2 * rank], [1, 2][:: 1 - 2 * rank]
            )
            dist.send(torch.ones(5), 1) if rank == 0 else dist.recv(torch.ones(5), 0)
        profile.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
        calls = [e["args"] for e in events if e.get("name") == "record_param_comms"]
        return calls, {e["name"] for e in events if e.get("name", "").startswith("ringwood:")}

    for rank, (calls, titles) in enumerate(run_ranks(2, body)):
        what = [
            (c["Collective name"], c["dtype"], c["In msg nelems"], c["Out msg nelems"])
            for c in calls
        ]
        message = ("send", "Float", 5, 0) if rank == 0 else ("recv", "Float", 0, 5)
        assert what == [
            ("allreduce", "BFloat16", 8, 8),
            ("broadcast", "Float", 3, 3),
            ("all_to_allv", "Float", 3, 3),
            message,
        ]
        assert calls[0]["Process Group Description"] == "pair"
        assert [c["Group size"] for c in calls] == [2] * 4
        assert [c["Process Group Ranks"] for c in calls] == ["[0, 1]"] * 4
        assert [c["Is asynchronized op"] for c in calls][:2] == [0, 1]
        assert calls[2]["In split size"] == ["[1, 2]", "[2, 1]"][rank]
        assert titles >= {"ringwood:all_reduce", "ringwood:broadcast", "ringwood:all_to_all"}

"""Training that is interrupted: a rank that is killed, a job that goes on from its checkpoint."""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest
import torch
from processes import (
    EXAMPLES,
    NEVER_S,
    PATIENCE_S,
    Job,
    descendants,
    environment_ranks,
    is_running,
    processes,
    run,
)

TRAIN = EXAMPLES / "train.py"
SEMAPHORES = "sem.*"  # of Python, by names that live as long as it makes them


@pytest.fixture
def variables(backend, data_folder, tmp_path) -> dict[str, str]:
    return {
        "BACKEND": backend,
        "DATASETS_PATH": str(data_folder),
        "DATASETS": "digits",
        "BATCH_SIZE": "16",
        "WORKSPACE": str(tmp_path / "workspace"),
    }


def wait_for_checkpoint(job: Job, variables: dict[str, str]) -> Path:
    checkpoint = Path(variables["WORKSPACE"]) / "checkpoint.pt"
    job.wait_until("the first checkpoint", checkpoint.exists)
    return checkpoint


def kill_at_work(job: Job, victim: int) -> set[int]:
    """Kills a rank with a data loading process; all data loading processes there are. A rank that
    is killed while it starts one leaves Python's semaphores, so it stands still for a look."""
    pid = job.processes[victim].popen.pid

    def stands_well() -> bool:
        os.kill(pid, signal.SIGSTOP)
        job.wait_until("it stands still", lambda: processes()[pid][1] == "T")
        if descendants(pid) and not list(Path("/dev/shm").glob(SEMAPHORES)):
            return True
        os.kill(pid, signal.SIGCONT)
        return False

    job.wait_until("a data loading process at work", stands_well)
    ours = {one for p in job.processes for one in descendants(p.popen.pid)}
    os.kill(pid, signal.SIGKILL)
    return ours


@pytest.mark.parametrize(("ranks", "victim"), [(2, 0), (2, 1), (4, 2)])
def test_killed_rank_is_named_by_all_others(ranks, victim, variables, tmp_path):
    if variables["BACKEND"] == "gloo":
        pytest.skip("gloo does not say which rank was lost")
    variables["BATCH_SIZE"] = "4"  # long epochs: rarely a loader that starts
    # No time-out of a call comes before the test's own end, so the death itself is what ends them.
    words = [TRAIN, "--loaders", "1", "--timeout", NEVER_S]
    commands = environment_ranks(words, ranks, **variables, EPOCHS=100000)
    with Job(commands, tmp_path / "logs") as job:
        wait_for_checkpoint(job, variables)
        survivors = [p for rank, p in enumerate(job.processes) if rank != victim]
        ours = kill_at_work(job, victim)
        job.wait()
        for process in survivors:
            assert process.popen.returncode not in (0, -signal.SIGKILL), job.output()
            named = rf"Error: .*\brank {victim}\b.* died"
            assert re.search(named, process.output()), job.output()
        deadline = time.monotonic() + PATIENCE_S
        while alive := list(filter(is_running, ours)):
            assert time.monotonic() < deadline, f"data loading processes are left: {alive}"
            time.sleep(0.05)


def test_resumed_training_ends_with_the_same_bits(variables, tmp_path):
    variables["EPOCHS"] = "3"
    result = Path(variables["WORKSPACE"]) / "result.json"
    run(environment_ranks([TRAIN], 2, **variables), tmp_path / "whole")
    whole = json.loads(result.read_text())
    result.unlink()
    (result.parent / "checkpoint.pt").unlink()

    with Job(environment_ranks([TRAIN], 2, **variables), tmp_path / "cut") as job:
        checkpoint = wait_for_checkpoint(job, variables)
    assert not result.exists()
    assert torch.load(checkpoint, weights_only=True)["epoch"] < 3

    run(environment_ranks([TRAIN, "--resume"], 2, **variables), tmp_path / "resumed")
    resumed = json.loads(result.read_text())
    assert len(resumed["epochs"]) == 3
    assert [row["weights"] for row in resumed["epochs"]] == [
        row["weights"] for row in whole["epochs"]
    ]

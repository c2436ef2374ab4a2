"""Training that is interrupted: a rank that is killed, a job that goes on from its checkpoint."""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest
import torch
from processes import EXAMPLES, Job, age_s, descendants, environment_ranks, is_running, run

TRAIN = EXAMPLES / "train.py"
DETECTION_S = 1.0
# Leaving the interpreter with data loading processes and a cold page cache is not detection.
EXIT_S = 10.0
LOADER_AGE_S = 0.3


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


def wait_for_loader(job: Job, victim: int) -> None:
    """A rank that is killed while it starts a data loading process leaves Python's semaphores."""
    pid = job.processes[victim].popen.pid
    job.wait_until(
        "a data loading process at work",
        lambda: any(age_s(child) > LOADER_AGE_S for child in descendants(pid)),
    )


@pytest.mark.parametrize(("ranks", "victim"), [(2, 0), (2, 1), (4, 2)])
def test_killed_rank_is_named_by_all_others(ranks, victim, variables, tmp_path):
    if variables["BACKEND"] == "gloo":
        pytest.skip("gloo does not say which rank was lost")
    variables["BATCH_SIZE"] = "4"  # long epochs: rarely a loader that starts
    commands = environment_ranks([TRAIN, "--loaders", "1"], ranks, **variables, EPOCHS=100000)
    with Job(commands, tmp_path / "logs") as job:
        wait_for_checkpoint(job, variables)
        wait_for_loader(job, victim)
        survivors = [p for rank, p in enumerate(job.processes) if rank != victim]
        ours = {pid for p in job.processes for pid in descendants(p.popen.pid)}
        os.kill(job.processes[victim].popen.pid, signal.SIGKILL)
        killed = time.monotonic()
        named = {}
        while len(named) < len(survivors) and time.monotonic() < killed + EXIT_S:
            for process in survivors:
                if re.search(rf"Error: .*\b(rank|peer) {victim}\b", process.output()):
                    named.setdefault(process, time.monotonic() - killed)
            time.sleep(0.005)
        job.processes[victim].popen.wait()
        for process in survivors:
            process.popen.wait(max(0.1, killed + EXIT_S - time.monotonic()))
            assert process.popen.returncode not in (0, -signal.SIGKILL), job.output()
        assert len(named) == len(survivors), job.output()
        assert max(named.values()) < DETECTION_S, (named, job.output())
        deadline = time.monotonic() + EXIT_S
        while alive := list(filter(is_running, ours)):
            assert time.monotonic() < deadline, f"data loading processes are left: {alive}"
            time.sleep(0.05)


def test_resumed_training_ends_with_the_same_bits(variables, tmp_path):
    variables["EPOCHS"] = "6"
    result = Path(variables["WORKSPACE"]) / "result.json"
    run(environment_ranks([TRAIN], 2, **variables), tmp_path / "whole")
    whole = json.loads(result.read_text())
    result.unlink()
    (result.parent / "checkpoint.pt").unlink()

    with Job(environment_ranks([TRAIN], 2, **variables), tmp_path / "cut") as job:
        checkpoint = wait_for_checkpoint(job, variables)
    assert not result.exists()
    assert torch.load(checkpoint, weights_only=True)["epoch"] < 6

    run(environment_ranks([TRAIN, "--resume"], 2, **variables), tmp_path / "resumed")
    resumed = json.loads(result.read_text())
    assert len(resumed["epochs"]) == 6
    assert [row["weights"] for row in resumed["epochs"]] == [
        row["weights"] for row in whole["epochs"]
    ]

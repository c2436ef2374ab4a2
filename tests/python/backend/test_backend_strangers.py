"""Ranks of another job that come to torch's store of this one."""

import os

import pytest
import torch
import torch.distributed as dist
from backend_ranks import init, run_ranks

OWN_ROOT, STRANGER, OWN_RANK = range(3)


@pytest.mark.parametrize(
    ("variable", "stranger_has", "hears"),
    [
        ("RINGWOOD_JOB_ID", "other", "it belongs to job own (RINGWOOD_JOB_ID), this side to job"),
        ("TORCHELASTIC_RESTART_COUNT", "0", "it is of attempt 1 of the job, this side of attempt"),
    ],
)
def test_a_stranger_is_refused_while_the_job_waits(tmp_path, variable, stranger_has, hears) -> None:
    own_has = {"other": "own", "0": "1"}[stranger_has]
    refused = tmp_path / "refused"  # read by the job's own rank, which comes after that
    os.mkfifo(refused)

    def body(who: int, _size: int):
        os.environ[variable] = stranger_has if who == STRANGER else own_has
        if who == OWN_RANK:
            refused.read_text()
        try:
            init(min(who, 1), 2, int(os.environ["MASTER_PORT"]))
        except dist.DistNetworkError as error:
            return str(error)
        finally:
            if who == STRANGER:
                refused.write_text("now")
        total = torch.ones(1)
        dist.all_reduce(total)
        return total.item()

    told = run_ranks(3, body, group=False)
    assert "rank 0 refused this rank: " in told[STRANGER]
    assert hears in told[STRANGER]
    assert told[OWN_ROOT] == told[OWN_RANK] == 2

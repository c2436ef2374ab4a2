"""The one case of the laboratory that every run of tools/test has: RDMA works between two hosts."""

import pytest
from ringwood_command import BINARY
from test_roce_lab import LAB, Step, boot


@pytest.mark.timeout(180)
def test_every_collective_goes_over_rdma_between_two_hosts(tmp_path):
    run = boot(tmp_path, LAB.parent / "hosts.sh", BINARY, "collectives", hosts=2, rails=2)
    assert run.returncode == 0, run.stdout + run.stderr
    step = Step(tmp_path, "collectives")
    assert step.transports() == {"verbs"}
    assert len({row["collective"] for row in step.rows()}) == 10

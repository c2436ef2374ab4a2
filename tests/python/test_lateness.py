"""Ranks that are late by seconds, with the heartbeat that users have: all of
tests/communicator/lateness.cc."""

import re
import subprocess

import pytest
from ringwood_command import BINARY, environment

PROGRAM = BINARY.parent.parent / "tests" / "collective_tests"
# Ranks that are waited for do nothing, so several tests run at a time.
SHARDS = 6


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("delay_s", [2, 5, 30])
def test_late_ranks_are_waited_for(delay_s, tmp_path):
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built")
    shards = []
    for index in range(SHARDS):
        variables = environment(GTEST_TOTAL_SHARDS=str(SHARDS), GTEST_SHARD_INDEX=str(index)) | {
            "RINGWOOD_TEST_LATE_MS": str(1000 * delay_s),
            "RINGWOOD_TEST_HEARTBEAT_MS": "250",
        }
        log = (tmp_path / f"{index}.log").open("w")
        words = [PROGRAM, "--gtest_filter=*Lateness.IsWaitedFor*"]
        shards.append(subprocess.Popen(words, stdout=log, stderr=log, env=variables))
    codes = [shard.wait() for shard in shards]
    said = "".join(path.read_text() for path in sorted(tmp_path.glob("*.log")))
    rows = re.findall(r"\[       OK \] All/Lateness\.IsWaitedFor/(\w+) \((\d+) ms\)", said)
    print("\n".join(f"{name}: {int(ms) / 1000:.1f} s" for name, ms in sorted(rows)))
    assert codes == [0] * SHARDS, said
    waited = [int(ms) for name, ms in rows if not name.startswith("verbs")]
    assert len(waited) >= 14, said
    assert min(waited) >= 1000 * delay_s

"""`ringwood doctor --all-hosts` of ranks that do not come together: over the store alone."""

import json
import os
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest
from doctor_runs import Found
from ringwood_command import BINARY, environment

RANKS = 3
RECORD, REMOVED = struct.Struct("<III"), 0xFFFFFFFF


def start(store: Path, rank: int, limit_s: int = 1) -> subprocess.Popen:
    words = [str(BINARY), "doctor", "--all-hosts", "--json", "-T", str(limit_s)]
    words += ["--ignore", "shm-small", "--rendezvous", f"file://{store}"]
    # Each rank is a host of its own.
    own = {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "RINGWOOD_HOST_ID": f"host{rank}"}
    pipe = subprocess.PIPE
    return subprocess.Popen(words, env=environment(**own), stdout=pipe, stderr=pipe, text=True)


def left_in(store: Path) -> list[str]:
    """Keys of the doctor; those of the group that failed are the group's. Records: a checksum, the
    bytes of the key and of the value, both."""
    log, keys = (store.read_bytes() if store.exists() else b"")[16:], {}
    while len(log) >= RECORD.size:
        _, key_bytes, value_bytes = RECORD.unpack_from(log)
        end = RECORD.size + key_bytes
        keys[log[RECORD.size : end].decode()] = value_bytes != REMOVED
        log = log[end + (value_bytes if value_bytes != REMOVED else 0) :]
    return [key for key, there in keys.items() if there and key.startswith("unmet/")]


def found_of(rank_0: subprocess.Popen) -> Found:
    text, said = rank_0.communicate(timeout=120)
    return Found(rank_0.returncode, json.loads(text), said)


def wait_for(store: Path, words: list[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not store.exists() or any(word not in store.read_bytes() for word in words):
        assert time.monotonic() < deadline, "the ranks have said nothing"
        time.sleep(0.01)


@pytest.mark.parametrize("ranks", [[0], [0, 1]])
def test_nothing_is_left_in_the_store(ranks, tmp_path):
    store = tmp_path / "store"
    started = [start(store, rank) for rank in ranks]
    found = found_of(started[0])
    assert (found.code, found.ids) == (3, set()), found.text
    assert len(found.said["hosts"]) == len(ranks), found.text
    for other in started[1:]:
        other.communicate(timeout=60)
    assert left_in(store) == []


def test_a_second_attempt_knows_nothing_of_the_first(tmp_path):
    """Ranks that were killed have left their keys; now another one is missing."""
    store = tmp_path / "store"
    killed = [start(store, 0), start(store, 1)]
    wait_for(store, [b"/0/here", b"/1/here"])
    for rank in killed:
        os.kill(rank.pid, signal.SIGKILL)
        rank.communicate()
    assert len(left_in(store)) > 0
    started = [start(store, 0), start(store, 2)]
    found = found_of(started[0])
    started[1].communicate(timeout=60)
    assert (found.code, found.ids) == (3, set()), found.said
    assert [host["host"] for host in found.said["hosts"]] == ["host0", "host2"], found.said
    assert "missing rank 1" in found.missed()["hosts"], found.said

"""Where the ranks of `ringwood perf` come from, and what happens when one of them dies."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import PATIENCE_S, held_port
from ringwood_command import BINARY, environment, run
from wakeups import growing_limit, measures_again


def children_of(pid: int) -> dict[str, int]:
    """Name -> process."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return {Path(f"/proc/{c}/comm").read_text().strip(): int(c) for c in children}
    except OSError:
        return {}


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def eventually(condition, seconds: float = PATIENCE_S) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


class Endless:
    """A run that would take hours, at the moment when its ranks have met."""

    def __init__(self, folder: Path, ranks: int, *more: str):
        self.folder = folder
        self.process = subprocess.Popen(
            [str(BINARY), "perf", "all_reduce", "--ranks", str(ranks), "-n", "100000000", *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(TMPDIR=str(folder)),
        )
        for line in self.process.stdout:
            if line.startswith("# all_reduce"):
                break
        self.ranks = children_of(self.process.pid)
        assert sorted(self.ranks) == [f"ringwood:{r}" for r in range(ranks)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def end(self) -> tuple[int, str]:
        """Exit code and standard error; nothing may be left."""
        _, errors = self.process.communicate(timeout=PATIENCE_S)
        assert eventually(lambda: all(gone(pid) for pid in self.ranks.values()))
        assert list(self.folder.iterdir()) == []
        return self.process.returncode, errors


@pytest.mark.parametrize("flavour", ["openmpi", "mpich"])
def test_joins_mpirun(flavour, tmp_path):
    launcher = shutil.which(f"mpirun.{flavour}")
    if launcher is None:
        pytest.skip(f"mpirun.{flavour} is not installed")
    options = ["--allow-run-as-root", "--oversubscribe"] if flavour == "openmpi" else []
    done = subprocess.run(
        [launcher, *options, "-n", "3", str(BINARY), "perf", "all_reduce", "-e", "1K", "--json"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment(TMPDIR=str(tmp_path)),
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]  # one object: only rank 0 speaks
    assert {(row["ranks"], row["wrong"]) for row in rows} == {(3, 0)}
    assert not list(tmp_path.glob("ringwood*"))


def test_joins_torchrun():
    pytest.importorskip("torch")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python"]
    done = subprocess.run(
        [
            *torchrun,
            "--nproc-per-node",
            "2",
            str(BINARY),
            "perf",
            "all_reduce",
            "-e",
            "1K",
            "--json",
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    assert {row["ranks"] for row in json.loads(done.stdout)["rows"]} == {2}


def join_by_hand(count: int, *arguments: str, **more: str) -> list[subprocess.CompletedProcess]:
    """Ranks that know each other by RANK, WORLD_SIZE and what is in `more`."""
    processes = [
        subprocess.Popen(
            [str(BINARY), "perf", "all_reduce", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(RANK=str(rank), WORLD_SIZE=str(count), **more),
        )
        for rank in range(count)
    ]
    try:
        outputs = [process.communicate(timeout=PATIENCE_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [
        subprocess.CompletedProcess(p.args, p.returncode, *output)
        for p, output in zip(processes, outputs, strict=True)
    ]


@pytest.mark.parametrize("way", ["parent", "address", "file"])
def test_joins_by_variables(way, tmp_path):
    more, arguments = {"TMPDIR": str(tmp_path)}, ["-e", "64"]
    if way == "address":
        more |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(held_port())}
    if way == "file":
        arguments += ["--rendezvous", f"file://{tmp_path}/meeting"]
    first, second = join_by_hand(2, *arguments, **more)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "# Out of bounds values : 0 OK" in first.stdout
    assert (second.stdout, second.stderr) == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_transports_are_those_of_all_ranks(tmp_path):
    """Rank 0 is alone on its host: only the other two see shared memory."""
    arguments = ["perf", "all_reduce", "sendrecv", "--sizes", "1K", "-n", "2", "--json"]
    arguments += ["--rendezvous", f"file://{tmp_path}/meeting"]
    ranks = [
        subprocess.Popen(
            [str(BINARY), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(
                RANK=str(rank), WORLD_SIZE="3", RINGWOOD_HOST_ID="alone" if rank == 0 else "pair"
            ),
        )
        for rank in range(3)
    ]
    outputs = [rank.communicate(timeout=PATIENCE_S) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0, 0], outputs
    rows = json.loads(outputs[0][0])["rows"]
    assert [row["transports"] for row in rows] == ["tcp+shm", "tcp+shm"]


def test_ranks_that_contradict_the_launcher():
    done = run("perf", "all_reduce", "--ranks", "2", RANK="0", WORLD_SIZE="4")
    assert done.returncode == 2
    assert "--ranks 2 contradicts the 4 ranks" in done.stderr


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_killed_rank_is_named_and_the_others_end(victim, tmp_path):
    with Endless(tmp_path, 3) as endless:
        os.kill(endless.ranks[f"ringwood:{victim}"], signal.SIGKILL)
        code, errors = endless.end()
    assert code == 1
    assert f"rank {victim} (process " in errors
    assert "was killed by signal 9" in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_ranks(number, tmp_path):
    with Endless(tmp_path, 2) as endless:
        endless.process.send_signal(number)
        code, _ = endless.end()
    assert code == 128 + number


def test_nothing_outlives_a_killed_parent(tmp_path):
    with Endless(tmp_path, 2) as endless:
        endless.process.kill()
        code, _ = endless.end()
    assert code == -signal.SIGKILL


@measures_again
def test_timeout_of_a_rank_that_stopped(tmp_path):
    def check(limit_s):
        with Endless(tmp_path, 2, "-T", f"{limit_s:g}") as endless:
            os.kill(endless.ranks["ringwood:1"], signal.SIGSTOP)
            code, errors = endless.end()
        assert code == 1
        assert "timeout" in errors
        assert "rank 1" in errors

    growing_limit(check)  # until it is stopped, the ranks have to keep it


def test_a_reader_that_leaves_ends_the_run_quietly(tmp_path):
    with subprocess.Popen(
        [str(BINARY), "perf", "all_reduce", "-n", "100", "--batches", "1000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(TMPDIR=str(tmp_path)),
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 128 + signal.SIGPIPE
        assert process.stderr.read() == ""
    assert list(tmp_path.iterdir()) == []

"""Runs the `ringwood` command as a user would, and jobs for it to look at."""

import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from processes import PATIENCE_S

# For `top`: as long as it takes until a job has begun.
WAIT = ["--wait", f"{PATIENCE_S:g}"]
ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(
    os.environ.get("RINGWOOD_BINARY")
    or next(filter(Path.exists, [ROOT / "build" / "tools" / "ringwood"]), None)
    or shutil.which("ringwood")
    or ROOT / "build" / "tools" / "ringwood"
)


def environment(**more: str) -> dict[str, str]:
    """Ours, without what a launcher around the tests may have set."""
    foreign = re.compile(
        r"^(RINGWOOD_|RANK$|WORLD_SIZE$|LOCAL_|MASTER_|OMPI_|PMI|SLURM_|MPI_|TORCHELASTIC)"
    )
    ours = {k: v for k, v in os.environ.items() if not foreign.match(k)}
    return ours | more


def run(*arguments: str, **more: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(BINARY), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment(**more),
    )


# A process counts the memory of the one that started it as its own, until it has more.
_SMALL_PARENT = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def run_measured(*arguments: str) -> tuple[subprocess.CompletedProcess, int]:
    """Also the KiB of memory that the command had at most."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", _SMALL_PARENT, str(BINARY), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment(),
    )
    return done, int(done.stderr.splitlines()[-1])


def complaints(done: subprocess.CompletedProcess) -> str:
    """What it said beside how far it is, which it tells where it takes long."""
    return re.sub(r"(?m)^# \w+: .*\n", "", done.stderr)


@functools.cache
def transports() -> list[str]:
    """All names of the table of transports, so that a new one joins every suite that asks here."""
    refusal = run("perf", "barrier", "--transport", "none-of-them").stderr
    return re.search(r"there are ([^;]+);", refusal)[1].split(", ")


@functools.cache
def absent_here(transport: str) -> str:
    """Why processes of this machine cannot meet over it; "" if they can."""
    done = run("perf", "barrier", "--transport", transport, "--ranks", "2", "-n", "1", "-w", "0")
    if done.returncode == 0:
        return ""
    why = done.stderr.strip().splitlines()[-1]
    assert "no transport reaches rank" in why, done.stderr
    return why


PROGRAM = BINARY.parents[1] / "tests" / "late_ranks"
NAME = re.compile(r"@ringwood-status-\d+/\d+/(\d+)/")


@dataclass
class Job:
    """`late_ranks`: the same all-reduce again and again."""

    ranks: list[subprocess.Popen]

    @property
    def pids(self) -> list[int]:
        return [rank.pid for rank in self.ranks]

    def names(self) -> list[str]:
        """Its sockets that are left."""
        table = Path("/proc/net/unix").read_text()
        return [found[0] for found in NAME.finditer(table) if int(found[1]) in self.pids]

    def signal(self, rank: int, number: int) -> None:
        os.kill(self.pids[rank], number)

    def end(self) -> None:
        """All ranks leave together, after an operation."""
        self.signal(0, signal.SIGTERM)
        assert [rank.wait(PATIENCE_S) for rank in self.ranks] == [0] * len(self.ranks)


@dataclass
class Kind:
    """Of a job."""

    size: int = 4
    seconds: float = 3600  # or until it is told to end
    bytes: int = 4096
    late: int = -1  # this rank comes late to each operation, by so many microseconds
    us: int = 0
    places: list[tuple[list[str], dict[str, str]]] | None = None  # what each rank begins with

    def command(self, rank: int, folder: Path) -> list[str]:
        url = f"file://{folder}/store"
        words = (PROGRAM, url, rank, self.size, self.seconds, self.bytes, self.late, self.us)
        return [str(word) for word in words]


@contextlib.contextmanager
def job(folder: Path, **kind) -> Iterator[Job]:
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built")
    (folder / "store").unlink(missing_ok=True)
    meant = Kind(**kind)
    ranks = []
    try:
        for rank in range(meant.size):
            prefix, variables = meant.places[rank] if meant.places else ([], {})
            ranks.append(
                subprocess.Popen(
                    [*prefix, *meant.command(rank, folder)],
                    env=environment(**variables),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        yield Job(ranks)
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


@contextlib.contextmanager
def names_of_another_user(on: Job) -> Iterator[str]:
    """Sockets that another user has made, as names of the job's: of its user and process, of other
    versions, of its own group, and with nobody who would accept. The job's group."""
    table = Path("/proc/net/unix").read_text()
    pid = on.pids[0]
    group = re.search(rf"@ringwood-status-1/{os.geteuid()}/{pid}/(\w+)/0", table)[1]
    full = [f"ringwood-status-1/0/{pid}/{group}/{rank}" for rank in range(100, 160)]
    names = [
        f"ringwood-status-2/0/{pid}/0000000000000001/0",
        f"ringwood-status-1/0/{pid}/{group}/7",
        f"ringwood-status-1/65534/{pid}/{group}/9",
        "ringwood-status-1/0/1/0000000000c0ffee/0",
    ]
    script = (
        "import os, socket; os.setgid(65534); os.setuid(65534); held = []\n"
        f"for name in {names + full!r}:\n"
        "    s = socket.socket(socket.AF_UNIX); s.bind('\\0' + name); held.append(s)\n"
        f"    s.listen(0 if name in {full!r} else 100)\n"
        "    for _ in range(2):\n"
        "        c = socket.socket(socket.AF_UNIX); c.setblocking(False); held.append(c)\n"
        f"        if name in {full!r}: c.connect_ex('\\0' + name)\n"
        "print('there', flush=True); input()"
    )
    with subprocess.Popen(
        ["python3", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "there\n"
        yield group
        other.communicate("\n")

"""Runs the `ringwood` command as a user would."""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

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
        timeout=150,
        env=environment(**more),
    )


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

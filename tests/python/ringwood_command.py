"""Runs the `ringwood` command as a user would."""

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

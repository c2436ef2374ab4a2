"""A Debian of its smallest size in a folder, with nothing of the machine that it lies on."""

import shutil
import socket
import subprocess
from pathlib import Path

from processes import ROOT

LIVE = "mount -t proc proc /proc && mount -t tmpfs tmpfs /dev/shm"
VARIABLES = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "DEBIAN_FRONTEND": "noninteractive",
}


class BareRoot:
    """Nothing of it stays mounted or running. Only root can make one."""

    def __init__(self, folder: Path, release: str, *packages: str) -> None:
        self.folder = folder
        include = ",".join(("ca-certificates", *packages))
        command = ["debootstrap", "--variant=minbase", f"--include={include}", release, folder]
        told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert told.returncode == 0, told.stdout
        # As installers and containers write it: torchrun goes by these names.
        names = f"127.0.0.1 localhost {socket.gethostname()}\n"
        (folder / "etc" / "hosts").write_text(names)

    def shell(self, lines: str, folder: str) -> str:
        """What these lines say, typed by root in this folder."""
        alone = ["unshare", "--mount", "--pid", "--fork", "chroot", self.folder]
        done = subprocess.run(
            [*alone, "bash", "-ec", f"{LIVE} && cd {folder} && {lines}"],
            env=VARIABLES,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, f"{lines}\n{done.stdout}"
        return done.stdout


def copy_of_the_sources(to: Path) -> None:
    """What git has, as it lies here."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, to / name, follow_symlinks=False)

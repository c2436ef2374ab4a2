"""Hosts of a cluster that ssh reaches: a real server in each network namespace.

The server sees a home of its own, so that nobody's keys are touched.
"""

import shutil
import subprocess
import time
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path

from shapes import Cluster

SERVER = "dropbear"
PATIENCE_S = 60


def make_keys(folder: Path) -> Path:
    """The client's key, which a home in the folder admits, and the hosts' own."""
    key = folder / "key"
    if key.exists():
        return key
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    admitted = folder / "home" / ".ssh" / "authorized_keys"
    admitted.parent.mkdir(parents=True)
    shutil.copy(f"{key}.pub", admitted)
    for private in (folder / "home", admitted.parent):
        private.chmod(0o700)
    admitted.chmod(0o600)
    (folder / "passwd").write_text(f"root:x:0:0:root:{folder}/home:/bin/sh\n")
    subprocess.run(
        ["dropbearkey", "-t", "ed25519", "-f", str(folder / "host-key")],
        check=True,
        capture_output=True,
    )
    return key


def client(folder: Path) -> str:
    """For --ssh-command."""
    options = ["-F", "none", "-i", str(folder / "key"), "-o", "UserKnownHostsFile=/dev/null"]
    options += ["-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR"]
    return " ".join(["ssh", *options])


def answers(namespace: str) -> bool:
    """Something listens at port 22 there."""
    words = ["ip", "netns", "exec", namespace, "cat", "/proc/net/tcp"]
    told = subprocess.run(words, capture_output=True, text=True).stdout
    return any(":0016 " in line and " 0A " in line for line in told.splitlines())


@contextmanager
def ssh_servers(hosts: Cluster, folder: Path, on: Iterable[int]):
    """As long as they last; dropbear's sessions end with it."""
    make_keys(folder)
    script = (
        f"mount --bind {folder}/passwd /etc/passwd && exec {SERVER} -F -E -s -r {folder}/host-key"
    )
    servers = []
    try:
        for host in on:
            pid = folder / f"server{host}.pid"
            words = ["ip", "netns", "exec", hosts.namespaces[host]]
            words += ["unshare", "--mount", "sh", "-c", f"{script} -P {pid}"]
            log = (folder / f"server{host}.log").open("w")
            servers.append(subprocess.Popen(words, stdout=log, stderr=log))
        late = time.monotonic() + PATIENCE_S
        for host in on:
            while not answers(hosts.namespaces[host]):
                told = (folder / f"server{host}.log").read_text()
                assert time.monotonic() < late, told
                time.sleep(0.02)
        yield
    finally:
        for server in servers:
            server.kill()
            server.wait()

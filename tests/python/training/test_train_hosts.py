"""Two hosts with two ranks each: network namespaces, joined by one virtual cable."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import EXAMPLES, Command, run

TRAIN = EXAMPLES / "train.py"


class Host:
    """A network namespace of its own, with one interface beside the loopback."""

    def __init__(self, index: int) -> None:
        self.name = f"host{index}-{os.getpid()}"
        self.address = f"10.213.7.{index + 1}"
        ip("netns", "add", self.name)
        ip("-n", self.name, "link", "set", "lo", "up")

    def command(self, names: Path, *argv: object, **environment: str) -> Command:
        """Under a host name of its own; the file `names` plays the name service."""
        inside = 'hostname "$0" && mount --bind "$1" /etc/hosts && shift && exec "$@"'
        words = ["unshare", "--uts", "--mount", "sh", "-c", inside, self.name, names, *argv]
        return Command(["ip", "netns", "exec", self.name, *words], environment)


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


@pytest.fixture
def hosts():
    made = []
    try:
        try:
            made.append(Host(0))
        except (OSError, FileNotFoundError) as refusal:
            pytest.skip(f"no network namespaces here: {refusal}")
        made.append(Host(1))
        ends = [f"rw{os.getpid()}{side}" for side in "ab"]
        ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for host, end in zip(made, ends, strict=True):
            ip("link", "set", end, "netns", host.name, "name", "eth0")
            ip("-n", host.name, "address", "add", f"{host.address}/24", "dev", "eth0")
            ip("-n", host.name, "link", "set", "eth0", "up")
        yield made
    finally:
        for host in made:
            ip("netns", "delete", host.name)


def test_two_hosts_with_two_ranks_each(hosts, backend, data_folder, tmp_path):
    torchrun = Path(sys.executable).with_name("torchrun")
    names = tmp_path / "hosts"
    names.write_text("127.0.0.1 localhost\n" + "".join(f"{h.address} {h.name}\n" for h in hosts))
    commands = [
        host.command(
            names,
            *(torchrun, "--nnodes=2", "--nproc_per_node=2", "--rdzv_id=job"),
            *("--rdzv_backend=c10d", f"--rdzv_endpoint={hosts[0].name}:29400"),
            TRAIN,
            BACKEND=backend,
            EPOCHS="2",
            DATASETS_PATH=str(data_folder),
            DATASETS="digits",
            RINGWOOD_LOG="info",
            WORKSPACE=str(tmp_path / host.name),
        )
        for host in hosts
    ]
    output = run(commands, tmp_path / "logs")
    results = list(tmp_path.glob("host*-*/result.json"))
    assert len(results) == 1, "rank 0 alone writes a result"
    assert json.loads(results[0].read_text())["ranks"] == 4
    if backend == "ringwood":
        assert "rank 0 of 4: shm to 1, tcp to 2, tcp to 3" in output
        assert "rank 3 of 4: tcp to 0, tcp to 1, shm to 2" in output

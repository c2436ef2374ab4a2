"""RDMA ports for network namespaces, as far as /sys shows them: for tests of `ringwood doctor`.

No library can open them, so ranks between such hosts use TCP, as they do where a library lacks its
driver.
"""

import os
from pathlib import Path

from doctor_trees import gid_of, healthy

# The interfaces of the namespace stay; beside them, for this command only, are the ports below $0
# of the host that the job names, if it has some.
COVER = """ports="$0/$RINGWOOD_HOST_ID"
[ -d "$ports" ] || exec "$@"
mkdir -p "$ports/net" && mount --bind /sys/class/net "$ports/net" &&
mount -t tmpfs none /sys/class && mkdir /sys/class/net /sys/class/infiniband &&
mount --move "$ports/net" /sys/class/net &&
mount --bind "$ports/sys/class/infiniband" /sys/class/infiniband && exec "$@" """


class RdmaPorts:
    """Of `host{number}`: a port for each address, on the interfaces rail0, rail1."""

    def __init__(self, folder: Path, number: int, addresses: list[str]):
        self.root = healthy(folder, number).root
        for rail, address in enumerate(addresses):
            for index in (2, 3):
                (self.port(rail) / f"gids/{index}").write_text(f"{gid_of(address)}\n")
        for rail in range(len(addresses), 2):
            (self.port(rail) / "state").write_text("1: DOWN\n")

    def port(self, rail: int) -> Path:
        return self.root / f"sys/class/infiniband/mlx5_{rail}/ports/1"

    def raise_counter(self, rail: int, name: str, amount: int) -> None:
        file = self.port(rail) / "hw_counters" / name
        after = self.root / "after"
        after.write_text(f"{int(file.read_text()) + amount}\n")
        os.replace(after, file)


def covered(folder: Path, words: list[str]) -> list[str]:
    """The command of each rank, which sees the ports of its host in the folder."""
    return ["sh", "-c", COVER, str(folder), *words]

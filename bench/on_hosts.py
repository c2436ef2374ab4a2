"""Runs a command as one rank per network namespace, each on a core of its own; for bench/peers.

    python bench/on_hosts.py NAMESPACE,NAMESPACE ringwood perf all_reduce --rendezvous file://{store}

The ranks learn who they are from RANK and WORLD_SIZE; {store} in the command becomes the name of a
file at which they can meet.
"""

import os
import signal
import subprocess
import sys
import tempfile

from networks import placed


def start(rank: int, namespaces: list[str], command: list[str]) -> subprocess.Popen:
    environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(len(namespaces))}
    return subprocess.Popen(placed(rank, namespaces, command), env=environment)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    namespaces, command = sys.argv[1].split(","), sys.argv[2:]
    with tempfile.TemporaryDirectory(prefix="on-hosts-") as folder:
        words = [word.replace("{store}", f"{folder}/store") for word in command]
        ranks = [start(rank, namespaces, words) for rank in range(len(namespaces))]
        codes = [process.wait() for process in ranks]
    return next((abs(code) for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())

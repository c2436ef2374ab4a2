"""The processes that a program of tests has started: where they hang, and that none is left."""

import ctypes
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def collect_orphans() -> None:
    """From now on orphans of what this process starts become its children."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> list[int]:
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(status.parent.name))
    found, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def kill_descendants() -> None:
    """Of this process, which must be one that collects orphans."""
    for pid in descendants(os.getpid()):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.01)
        except ChildProcessError:
            return


def dump_stacks(pid: int, log) -> None:
    """Where a program hangs: Python tells it on SIGABRT, for C++ a debugger has to be there."""
    for victim in [pid, *descendants(pid)]:
        if shutil.which("gdb"):
            subprocess.run(
                ["gdb", "-p", str(victim), "-batch", "-ex", "thread apply all bt 20"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.DEVNULL,
                timeout=120,
            )
        try:
            os.kill(victim, signal.SIGABRT)
        except ProcessLookupError:
            continue

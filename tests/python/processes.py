"""Starts the ranks of a job as a user would, and makes sure that nothing of them stays."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from forked import ForkedScript

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "torch-bridge" / "examples"
# What launchers set: a job that is started from inside another one must not inherit any of it.
LAUNCH_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK")
# For what is sure to come, and is waited for no longer than until it comes. It ends only what
# hangs: `import torch` takes 20 s on a machine with other work, where threads wake seconds late. It
# is less than the time that pytest gives a test, so that the test itself says what has not come.
PATIENCE_S = 150.0
# For the calls of ranks that nobody is to end but the test: longer than any test lasts, so that an
# error within the test is not that of a time-out.
NEVER_S = 3600.0
# A thread that sleeps in so many looks in a row waits for something.
ASLEEP_LOOKS, LOOK_S = 5, 0.02


_held: list[socket.socket] = []


def held_port() -> int:
    """A port of the kernel's choice, for a server that sets SO_REUSEADDR, as torch's stores do.

    It stays bound, without listening, until release_ports(): the kernel gives it to nobody else,
    neither to a server that asks for any port nor to an outgoing connection.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("", 0))
    _held.append(holder)
    return holder.getsockname()[1]


def release_ports() -> None:
    while _held:
        _held.pop().close()


@dataclass
class Command:
    """What one user types into one shell."""

    argv: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    forked: bool = False  # `argv` is a script and its arguments, run by a fork of this process


class Process:
    """A started command; its output goes to a file, so that no pipe can fill up."""

    def __init__(self, command: Command, log: Path) -> None:
        inherited = {k: v for k, v in os.environ.items() if k not in LAUNCH_VARIABLES}
        argv = [str(word) for word in command.argv]
        environment = {
            **inherited,
            "PYTHONFAULTHANDLER": "1",
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": "1",
            **command.environment,
        }
        self.log = log
        with log.open("wb") as output:
            if command.forked:
                self.popen = ForkedScript(argv, environment, output.fileno())
                return
            self.popen = subprocess.Popen(
                argv,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def running(self) -> bool:
        return self.popen.poll() is None


class Job:
    """Commands that run side by side. As a context: whatever runs at its end is killed."""

    def __init__(self, commands: list[Command], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.processes = [
            Process(command, folder / f"{index}.log") for index, command in enumerate(commands)
        ]

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *_) -> None:
        for process in self.processes:
            for pid in [process.popen.pid, *descendants(process.popen.pid)]:
                signal_quietly(pid, signal.SIGKILL)
            process.popen.wait()

    def output(self) -> str:
        return "".join(
            f"--- {index} (status {process.popen.poll()})\n{process.output()}"
            for index, process in enumerate(self.processes)
        )

    def wait(self, timeout_s: float = PATIENCE_S) -> list[int]:
        """The exit statuses; a job that hangs fails with the Python stacks of all its processes."""
        deadline = time.monotonic() + timeout_s
        for process in self.processes:
            try:
                process.popen.wait(max(0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.dump_stacks()
                raise AssertionError(f"hangs after {timeout_s} s\n{self.output()}") from None
        return [process.popen.returncode for process in self.processes]

    def dump_stacks(self) -> None:
        for process in self.processes:
            for pid in [*descendants(process.popen.pid), process.popen.pid]:
                signal_quietly(pid, signal.SIGABRT)
        time.sleep(1)  # there is no event for "the handler has written"

    def expect_success(self, timeout_s: float = PATIENCE_S) -> str:
        statuses = self.wait(timeout_s)
        assert statuses == [0] * len(statuses), self.output()
        return self.output()

    def wait_until(self, what: str, condition, timeout_s: float = PATIENCE_S) -> None:
        """Waits for `condition` while every process runs."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"{what}: not within {timeout_s} s\n{self.output()}"
            assert all(p.running() for p in self.processes), f"{what}: one ended\n{self.output()}"
            time.sleep(0.005)


def run(commands: list[Command], folder: Path, timeout_s: float = PATIENCE_S) -> str:
    """Runs a job to its end, which must be a success; returns what it printed."""
    with Job(commands, folder) as job:
        return job.expect_success(timeout_s)


def python(*arguments, **environment) -> Command:
    return Command([sys.executable, *arguments], {k: str(v) for k, v in environment.items()})


def forked(*arguments, **environment) -> Command:
    """As python(), without the seconds in which a new process imports torch."""
    return Command(list(arguments), {k: str(v) for k, v in environment.items()}, forked=True)


def environment_ranks(arguments: list, ranks: int, start=forked, **environment) -> list[Command]:
    """One process per rank, with the variables of init_method env://."""
    port = held_port()
    return [
        start(
            *arguments,
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=port,
            RANK=rank,
            WORLD_SIZE=ranks,
            **environment,
        )
        for rank in range(ranks)
    ]


def signal_quietly(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def is_running(pid: int) -> bool:
    """False for a process that has ended, also if nobody has asked for its status yet."""
    return processes().get(pid, (0, "Z"))[1] != "Z"


def processes() -> dict[int, tuple[int, str]]:
    """Parent and state of every process."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(stat.parent.name)] = (int(fields[1]), fields[0])
    return found


def wait_until_asleep(thread: int, pid: int) -> None:
    """Until a thread has come to a wait, however late: from there on a signal finds it waiting.
    Or until it has ended."""
    stat = Path(f"/proc/{pid}/task/{thread}/stat")
    deadline, looks = time.monotonic() + PATIENCE_S, 0
    while looks < ASLEEP_LOOKS:
        assert time.monotonic() < deadline, f"thread {thread} of {pid} does not wait"
        try:
            state = stat.read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        looks = looks + 1 if state == "S" else 0
        time.sleep(LOOK_S)


def descendants(pid: int) -> list[int]:
    table = processes()
    found, todo = [], [pid]
    while todo:
        parent = todo.pop()
        children = [child for child, (its_parent, _) in table.items() if its_parent == parent]
        found += children
        todo += children
    return found

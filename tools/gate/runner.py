"""Runs one program of tests to its end, whatever its tests do to it.

A test that takes its program down, or that runs longer than it may, has failed, and the program is
started again with the tests after it. Nothing that the program started outlives it.
"""

import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gate import limits
from gate.output import Reader, Result, count
from gate.processes import dump_stacks, kill_descendants
from gate.progress import show

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "build" / "logs"
# Past the limit that a test of pytest is ended by itself, and between its end and the next.
GRACE_S = 30
# What a program may take between two tests: collecting, environments that several tests share.
BETWEEN_S = 180
TOLD_S = 15


@dataclass(frozen=True)
class Suite:
    """A program of tests: of GoogleTest, or pytest with the plugin `events`."""

    name: str
    command: list[str]
    pytest: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    limit_factor: int = 1  # sanitizers are slower
    waits: bool = False  # more than it computes: runs beside others

    def narrowed(self, tests: Sequence[str], folder: Path) -> "Suite":
        """The same with these tests only."""
        if self.pytest:
            wanted = folder / "tests"
            wanted.write_text("\n".join(tests))
            files = sorted({test.partition("::")[0] for test in tests})
            options = [word for word in self.command if not word.startswith("tests/")]
            environment = self.environment | {"GATE_TESTS": str(wanted)}
            return replace(self, command=[*options, *files], environment=environment)
        flags = folder / "flags"
        flags.write_text(f"--gtest_filter={':'.join(tests)}\n")
        command = [word for word in self.command if not word.startswith("--gtest_filter=")]
        return replace(self, command=[*command, f"--gtest_flagfile={flags}"])

    def tests(self, folder: Path) -> list[str]:
        """Their names, in the order in which they run; of pytest after it has begun."""
        if self.pytest:
            listed = folder / "listed"
            return listed.read_text().splitlines() if listed.exists() else []
        done = subprocess.run(
            [*self.command, "--gtest_list_tests"],
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=60,
        )
        return gtest_names(done.stdout)


def gtest_names(listing: str) -> list[str]:
    names, group = [], ""
    for line in listing.splitlines():
        word = line.partition("#")[0]
        if word.startswith("  ") and group and "DISABLED_" not in group + word:
            names.append(group + word.strip())
        elif word.rstrip().endswith("."):
            group = word.strip()
    return names


def lines(process: subprocess.Popen) -> Iterator[str | None]:
    """What it prints, and None once a second where it prints nothing."""
    left = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(1):
                yield None
                continue
            read = os.read(process.stdout.fileno(), 1 << 16)
            *whole, left = (left + read).split(b"\n")
            yield from (line.decode(errors="replace") for line in whole)
            if not read:
                if left:
                    yield left.decode(errors="replace")
                return


class Overseer:
    """Says when a program is to be ended: its test or it itself has taken too long."""

    def __init__(self, suite: Suite, reader: Reader, cut_at: float) -> None:
        self.suite, self.reader, self.cut_at = suite, reader, cut_at
        self.last_end = time.monotonic()

    def verdict(self) -> str:
        """Why it is to be ended now; "" if it is not."""
        now, reader = time.monotonic(), self.reader
        if now > self.cut_at:
            return "the whole run was cut here"
        if not reader.running:
            allowed = BETWEEN_S * self.suite.limit_factor
            return f"no test began for {allowed} s" if now - self.last_end > allowed else ""
        self.last_end = now
        own = reader.limit_s + GRACE_S if reader.limit_s else limits.limit_s(reader.running)
        allowed = own * self.suite.limit_factor
        return f"took more than {allowed:.0f} s" if now - reader.began > allowed else ""


def run_once(suite: Suite, reader: Reader, place: str, log, cut_at: float) -> int:
    """Starts the program and reads it to its end; how it ended, 0 where a result says why."""
    process = subprocess.Popen(
        suite.command,
        cwd=ROOT,
        env={**os.environ, **suite.environment, "PYTHONFAULTHANDLER": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    overseer, ended = Overseer(suite, reader, cut_at), ""
    began = told = time.monotonic()
    for line in lines(process):
        if line is not None:
            log.write(line + "\n")
            if not ended:  # what it does while its stacks are read is done again
                reader.read(line)
        said = f"{suite.name}: {count(reader.results)}, {time.monotonic() - began:.0f} s"
        show(f"{place} {said}  {reader.running}", end="")
        if not sys.stdout.isatty() and time.monotonic() - told > TOLD_S:
            told = time.monotonic()
            show(f"    {said}")
        if not ended and (ended := overseer.verdict()):
            dump_stacks(process.pid, log)
            kill_descendants()
            reader.end("failed", ended)
    status = process.wait()
    kill_descendants()
    if ended:
        return 0
    if reader.running:
        reader.end("failed", f"ended the program with status {status}")
        return 0
    return status


def fails_by_status(suite: Suite, status: int, results: list[Result]) -> bool:
    """The program has failed in a way that none of its tests tells."""
    if status == 0 or (suite.pytest and status == 5):  # 5: pytest found nothing to run
        return False
    # 1 is what a test that failed makes of it; anything else is an end of its own.
    return status != 1 or all(result.outcome != "failed" for result in results)


def run_suite(
    suite: Suite, place: str, cut_at: float, tests: Sequence[str] = (), log_name: str = ""
) -> list[Result]:
    """All its tests, or these only; `cut_at` is by the monotonic clock."""
    log_path = LOGS / f"{log_name or suite.name}.log"
    began = time.monotonic()
    reader = Reader(suite.name)
    with tempfile.TemporaryDirectory() as name, log_path.open("w", buffering=1) as log:
        folder = Path(name)
        listing = {"GATE_LISTED": str(folder / "listed")} if suite.pytest else {}
        todo = replace(suite, environment=suite.environment | listing)
        if tests:
            todo = todo.narrowed(tests, folder)
        while True:
            before = len(reader.results)
            status = run_once(todo, reader, place, log, cut_at)
            results = reader.results[before:]
            if fails_by_status(suite, status, results):
                reader.end("failed", f"ended with status {status}")
            # A program that was taken down goes on; one that ran nothing would do so again.
            if not any(result.test for result in results) or time.monotonic() > cut_at:
                break
            ended = {result.test for result in reader.results}
            left = [test for test in todo.tests(folder) if test not in ended]
            if not left:
                break
            todo = todo.narrowed(left, folder)
    show(f"{place} {suite.name}: {count(reader.results)}, {time.monotonic() - began:.0f} s")
    # At once and with the reasons: a run that is cut short tells them too.
    for result in (result for result in reader.results if result.outcome == "failed"):
        show(f"    failed: {result}")
        for line in result.said[-60:]:
            show(f"        {line}")
    return reader.results

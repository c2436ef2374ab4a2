"""Runs every test suite of a prepared checkout and counts the tests; `tools/test` calls it.

A suite is a program whose output names each test as it starts and ends, so that the progress is
seen live and a test that takes its program down is counted as failed. One stage that fails does not
stop the others. Nothing that a suite started outlives it.
"""

import argparse
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "logs"
PR_SET_CHILD_SUBREAPER = 36
# They start no thread, so that the thread sanitizer could find nothing in them.
WITHOUT_THREADS = ("schedule_tests", "cost_tests", "checker_tests", "fuzz_tests")

GTEST_START = re.compile(r"^\[ RUN      \] (\S+)")
GTEST_END = re.compile(r"\[ {2,7}(OK|FAILED|SKIPPED) {1,2}\] .*\(\d+ ms\)$")
PYTEST_END = re.compile(r"^(tests/\S.*?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b.*\[ *\d+%\]")


@dataclass
class Suite:
    """One program of tests."""

    name: str
    command: list[str]
    timeout_s: int
    environment: dict[str, str] = field(default_factory=dict)


@dataclass
class Count:
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: int = 0
    running: str = ""

    def read(self, line: str) -> None:
        """Takes in one line of a suite's output."""
        if start := GTEST_START.match(line):
            if self.running:  # its end was lost in what else it printed
                self.end(self.running, "FAILED")
            self.running = start[1]
        elif self.running and (end := GTEST_END.search(line)):
            self.end(self.running, {"OK": "PASSED"}.get(end[1], end[1]))
        elif end := PYTEST_END.match(line):
            self.end(end[1], end[2])

    def end(self, test: str, outcome: str) -> None:
        self.running = ""
        if outcome in ("PASSED", "XFAIL"):
            self.passed += 1
        elif outcome == "SKIPPED":
            self.skipped += 1
        else:
            self.failed.append(test)

    def __str__(self) -> str:
        return f"{self.passed} passed, {len(self.failed)} failed, {self.skipped} skipped"


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


def kill_leftovers() -> int:
    """Orphans of a suite are our children, because we are their subreaper."""
    left = descendants(os.getpid())
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.01)
        except ChildProcessError:
            return len(left)


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


def show(text: str, end: str = "\n") -> None:
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns - 1
        print("\r\033[K" + (text[:width] if end == "" else text), end=end, flush=True)
    elif end:
        print(text, flush=True)


def run_suite(suite: Suite, place: str) -> Count:
    log_path = LOGS / f"{suite.name}.log"
    count, started, told = Count(), time.monotonic(), time.monotonic()
    with log_path.open("w", buffering=1, errors="replace") as log:
        process = subprocess.Popen(
            suite.command,
            cwd=ROOT,
            env={**os.environ, **suite.environment, "PYTHONFAULTHANDLER": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            dump_stacks(process.pid, log)
            kill_leftovers()

        alarm = threading.Timer(suite.timeout_s, expire)
        alarm.start()
        for line in process.stdout:
            log.write(line)
            count.read(line)
            seconds = time.monotonic() - started
            show(f"{place} {suite.name}: {count}, {seconds:.0f} s  {count.running}", end="")
            if not sys.stdout.isatty() and time.monotonic() - told > 15:
                told = time.monotonic()
                show(f"    {suite.name}: {count}, {seconds:.0f} s")
        status = process.wait()
        alarm.cancel()
        alarm.join()
    kill_leftovers()
    if expired.is_set():
        count.failed.append(f"{count.running or suite.name}: took more than {suite.timeout_s} s")
    elif count.running:
        count.failed.append(f"{count.running}: ended the program with status {status}")
    elif status not in (0, 5) and not count.failed:  # 5: pytest found nothing to run
        count.failed.append(f"{suite.name}: ended with status {status}")
    show(f"{place} {suite.name}: {count}, {time.monotonic() - started:.0f} s")
    return count


def programs(without: tuple[str, ...] = ()) -> list[str]:
    """The names of the C++ suites."""
    command = [".venv/bin/meson", "introspect", "build", "--tests"]
    told = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    return sorted({test["name"] for test in json.loads(told)} - set(without))


def build(folder: str, sanitizer: str, names: list[str]) -> str:
    """Makes a sanitizer build of these suites, and of nothing else, since nothing else is run from
    it; returns what went wrong, or ""."""
    configure = [
        ".venv/bin/meson",
        "setup",
        folder,
        f"-Db_sanitize={sanitizer}",
        "-Doptimization=1",
        "-Ddebug=false",
        # Lines in reports: all of -g doubles the time to compile. What the address sanitizer sees
        # by itself is not checked a second time: that takes a sixth of it.
        "-Dcpp_args=-g1 -fno-sanitize=null,object-size,vptr",
        "-Db_lundef=false",
        "-Dbridge=disabled",
        "-Dbenches=false",
    ]
    show(f"building {folder} ({sanitizer} sanitizer)")
    log_path = LOGS / f"{folder}.log"
    targets = [f"tests/{name}" for name in names]
    with log_path.open("w") as log:
        for command in (configure, [".venv/bin/ninja", "-C", folder, *targets]):
            if command is configure and (ROOT / folder / "build.ninja").exists():
                continue
            process = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            told = 0.0
            for line in process.stdout:
                log.write(line)
                if line.startswith("[") and (sys.stdout.isatty() or time.monotonic() - told > 15):
                    told = time.monotonic()
                    show(f"    {folder} {line.strip()}", end="" if sys.stdout.isatty() else "\n")
            if process.wait() != 0:
                return f"the build in {folder} failed (log: {log_path.relative_to(ROOT)})"
    return ""


def cpp_suites(
    folder: str, names: list[str], only: str, wrapper: list[str], scale: int
) -> list[Suite]:
    environment = {
        # Not detect_stack_use_after_return: GCC 12's fake stack misaligns 64-byte vectors.
        "ASAN_OPTIONS": "strict_string_checks=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
    }
    suites = []
    for name in names:
        command = [*wrapper, str(ROOT / folder / "tests" / name)]
        if only and only not in name:
            command.append(f"--gtest_filter=*{only}*")
        label = folder.removeprefix("build")
        suites.append(Suite(name + label, command, 300 * scale, environment))
    return suites


def python_suite(only: str, slow: bool) -> Suite:
    command = [".venv/bin/python", "-m", "pytest", "-v", "-ra", "--color=no", "tests/python"]
    command += ["-p", "no:cacheprovider"]
    command += [] if slow else ["-m", "not slow"]
    command += ["-k", " and ".join(filter(None, only.split("*")))] if only else []
    return Suite("python", command, 7200 if slow else 1500)


def stages(arguments: argparse.Namespace):
    """Yields (suites, reason why they cannot run or "")."""
    only = arguments.only
    names = programs()
    yield cpp_suites("build", names, only, [], 1), ""
    if not arguments.quick:
        error = build("build-asan", "address,undefined", names)
        yield cpp_suites("build-asan", names, only, [], 2), error
        wrapper = ["setarch", "-R"]
        names = programs(without=WITHOUT_THREADS)
        error = build("build-tsan", "thread", names)
        if subprocess.run([*wrapper, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            wrapper = []  # a container may forbid it; newer kernels and compilers do without
        yield cpp_suites("build-tsan", names, only, wrapper, 4), error
    yield [python_suite(only, arguments.slow)], ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/test", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without the sanitizer builds")
    parser.add_argument("--slow", action="store_true", help="with the tests that take minutes")
    parser.add_argument("--only", default="", metavar="PATTERN", help="tests or suites named so")
    arguments = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    LOGS.mkdir(parents=True, exist_ok=True)
    if arguments.slow:
        os.environ["SLOW_TESTS"] = "1"
    total, failures, started = Count(), [], time.monotonic()
    for number, (suites, error) in enumerate(stages(arguments), 1):
        if error:
            show(f"[stage {number}] {error}")
            failures.append(error)
        for index, suite in enumerate([] if error else suites, 1):
            count = run_suite(suite, f"[stage {number}, suite {index}/{len(suites)}]")
            total.passed += count.passed
            total.skipped += count.skipped
            failures += [f"{test}  (log: build/logs/{suite.name}.log)" for test in count.failed]
    if not (total.passed or failures or total.skipped):
        failures.append(f"no test is named like {arguments.only!r}")
    print(f"\n{(time.monotonic() - started) / 60:.0f} minutes")
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"{total.passed} passed, {len(failures)} failed, {total.skipped} skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

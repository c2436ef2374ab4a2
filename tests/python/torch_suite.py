"""PyTorch's own distributed tests over Ringwood, from the wheel that is installed.

    python tests/python/torch_suite.py [--backend NAME] [--world-size N] [--jobs N] [TEST ...]

PyTorch's driver starts fresh interpreters for each of 285 tests. Here one process imports all of it
once and forks the ranks of each test, so the whole suite takes a minute or two. Which tests apply,
and what some of them expect, is decided by the name of the backend: they are told "gloo", and
init_process_group gets another. A test that exceeds its time is killed, with the stacks of all its
ranks in the report.

The last line is "N passed, N failed, N skipped"; the status is 0 if nothing failed.
"""

import argparse
import collections
import contextlib
import dataclasses
import faulthandler
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
import unittest
from pathlib import Path

NAME_CHECK = "torch itself compares the backend's name with 'gloo'"
# What no backend of another name can pass, in torch 2.13. One that passes must leave the list.
EXPECTED_FAILURES = {
    "test_monitored_barrier_gloo": NAME_CHECK,
    "test_monitored_barrier_gloo_subgroup": NAME_CHECK,
    "test_ddp_logging_data_cpu": "torch records 'custom' as the name of every plug-in",
}
# Tests that ask for the name itself are told the true one.
TESTS_OF_THE_NAME = {"test_get_backend"}
POLL_S = 0.01


@dataclasses.dataclass
class Run:
    """One test under way."""

    test: str
    folder: Path
    deadline: float
    ranks: list[int]  # process ids
    codes: dict[int, int] = dataclasses.field(default_factory=dict)
    timed_out: bool = False

    def log(self) -> str:
        return "".join(
            f"--- rank {rank}\n{(self.folder / f'{rank}.log').read_text(errors='replace')}"
            for rank in range(len(self.ranks))
        )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", nargs="*", metavar="TEST", help="default: all")
    parser.add_argument("--backend", default="ringwood")
    parser.add_argument("--world-size", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2, help="tests side by side")
    parser.add_argument("--timeout", type=float, default=300, help="seconds per test")
    parser.add_argument("--verbose", action="store_true", help="a line for every test")
    return parser.parse_args()


def load_suite(world_size: int):
    """The class of all tests, gated as for gloo."""
    os.environ.update(BACKEND="gloo", WORLD_SIZE=str(world_size), OMP_NUM_THREADS="1")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ["TEMP_DIR"] = "unused: every test gets its own"
    from torch.testing._internal.distributed import distributed_test as module

    class Suite(module.TestDistBackend, module.DistributedTest._DistTestBase):
        pass

    return Suite


def replace_backend(name: str) -> None:
    """Lets init_process_group("gloo") make groups of another backend."""
    import torch.distributed as dist

    init_process_group = dist.init_process_group

    def init(*args, backend=None, **kwargs):
        return init_process_group(*args, backend=name if backend == "gloo" else backend, **kwargs)

    dist.init_process_group = init


def run_rank(suite, test: str, backend: str, folder: Path, rank: int) -> None:
    """In the forked child: never returns."""
    import torch.multiprocessing

    output = os.open(folder / f"{rank}.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    os.environ["TEMP_DIR"] = str(folder)
    code = 1
    try:
        if test in TESTS_OF_THE_NAME:
            sys.modules[suite.__base__.__module__].BACKEND = backend
        ours, _theirs = torch.multiprocessing.Pipe()
        suite._run(rank, test, str(folder / "store"), ours)
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def start(suite, test: str, options: argparse.Namespace) -> Run:
    folder = Path(tempfile.mkdtemp(prefix="torch_suite."))
    (folder / "barrier").mkdir()
    (folder / "test_dir").mkdir()
    sys.stdout.flush()
    ranks = []
    for rank in range(options.world_size):
        if (pid := os.fork()) == 0:
            run_rank(suite, test, options.backend, folder, rank)
        ranks.append(pid)
    return Run(test, folder, time.monotonic() + options.timeout, ranks)


def ended(run: Run, error_code: int) -> bool:
    """Takes the ranks' statuses; kills those that are too late, or left alone by a failed one."""
    for pid in run.ranks:
        if pid not in run.codes:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                run.codes[pid] = os.waitstatus_to_exitcode(status)
    waiting = [pid for pid in run.ranks if pid not in run.codes]
    if not waiting:
        return True
    if error_code in run.codes.values():
        run.deadline = min(run.deadline, time.monotonic() + 5)  # a failed rank leaves others alone
    if time.monotonic() > run.deadline:
        run.timed_out = not run.codes
        for pid in waiting:
            os.kill(pid, signal.SIGUSR1)
        time.sleep(0.5)  # there is no event for "the handler has written"
        for pid in waiting:
            os.kill(pid, signal.SIGKILL)
            run.codes[pid] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return True
    return False


class Report:
    """Counts, and tells what has to be told."""

    def __init__(self, expected: dict[str, str], skips: dict[int, str], verbose: bool) -> None:
        self.expected = expected  # failures
        self.skips = skips  # exit status -> reason
        self.verbose = verbose
        self.passed, self.failed = 0, []
        self.skipped = collections.Counter()

    def skip(self, test: str, reason: str) -> None:
        self.skipped[reason] += 1
        self.tell(f"skipped {test}: {reason}")

    def end(self, run: Run) -> None:
        codes = set(run.codes.values())
        reason = self.expected.get(run.test)
        if codes == {0}:
            if reason:
                self.failed.append(run.test)
                print(f"FAILED  {run.test}: it is expected to fail, and passed", flush=True)
            else:
                self.passed += 1
                self.tell(f"passed  {run.test}")
        elif len(codes) == 1 and codes <= set(self.skips):
            self.skip(run.test, self.skips[codes.pop()])
        elif reason:
            self.skip(run.test, f"expected failure: {reason}")
        else:
            self.failed.append(run.test)
            what = "timed out" if run.timed_out else f"statuses {list(run.codes.values())}"
            print(f"FAILED  {run.test}: {what}\n{run.log()}", flush=True)

    def tell(self, line: str) -> None:
        if self.verbose:
            print(line, flush=True)

    def summary(self) -> str:
        for reason, count in self.skipped.most_common():
            print(f"skipped {count:3}: {reason}")
        for test in self.failed:
            print(f"FAILED  {test}")
        skipped = self.skipped.total()
        return f"{self.passed} passed, {len(self.failed)} failed, {skipped} skipped"


def main() -> int:
    options = arguments()
    suite = load_suite(options.world_size)
    from torch.testing._internal.common_distributed import TEST_SKIPS, MultiProcessTestCase

    if options.backend == "ringwood":
        import ringwood

        ringwood.register()
    replace_backend(options.backend)
    expected = {} if options.backend == "gloo" else EXPECTED_FAILURES
    skips = {s.exit_code: s.message for s in TEST_SKIPS.values()}
    report = Report(expected, skips, options.verbose)
    waiting = collections.deque()
    for test in options.tests or unittest.TestLoader().getTestCaseNames(suite):
        function = getattr(suite, test)
        if getattr(function, "__unittest_skip__", False):
            report.skip(test, function.__unittest_skip_why__)
        else:
            waiting.append(test)
    running: list[Run] = []
    try:
        while waiting or running:
            while waiting and len(running) < options.jobs:
                running.append(start(suite, waiting.popleft(), options))
            for run in list(running):
                if ended(run, MultiProcessTestCase.TEST_ERROR_EXIT_CODE):
                    running.remove(run)
                    report.end(run)
                    shutil.rmtree(run.folder, ignore_errors=True)
            time.sleep(POLL_S)
    finally:
        for run in running:
            for pid in run.ranks:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            shutil.rmtree(run.folder, ignore_errors=True)
    print(report.summary())
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs suites side by side, each in a process that collects its orphans and with a /dev/shm of its
own, since tests count what lies there."""

import multiprocessing
import multiprocessing.connection
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace

from gate.output import Result
from gate.processes import collect_orphans
from gate.runner import Suite, run_suite

# As many as there are cores on the smallest machine that is used; one that waits comes on top.
AT_A_TIME = 2
MOUNTED = 'mount -t tmpfs none /dev/shm && exec "$@"'
OWN_SHARED_MEMORY = ["unshare", "--mount", "sh", "-c", MOUNTED, "sh"]


def may_share() -> bool:
    """Whether a suite can be given a /dev/shm of its own, which needs root."""
    tried = subprocess.run([*OWN_SHARED_MEMORY, "true"], stderr=subprocess.DEVNULL)
    return tried.returncode == 0


def run_in_process(suite: Suite, place: str, cut_at: float, answer) -> None:
    collect_orphans()
    answer.send(run_suite(suite, place, cut_at))


def next_suite(waiting: list[Suite], running: list[Suite], alone: bool) -> Suite | None:
    """The first that may begin beside these."""
    if alone:
        return None if running else waiting[0]
    for suite in waiting:
        others = sum(other.waits == suite.waits for other in running)
        if others < (1 if suite.waits else AT_A_TIME):
            return suite
    return None


def run_suites(suites: list[Suite], cut_at: float) -> Iterator[list[Result]]:
    """Yields what each came to, in the order in which they end; they begin in that of the list."""
    alone = not may_share()
    fork = multiprocessing.get_context("fork")
    waiting, running, begun = list(suites), {}, 0
    while waiting or running:
        others = [suite for suite, _ in running.values()]
        while waiting and (suite := next_suite(waiting, others, alone)):
            waiting.remove(suite)
            begun += 1
            if time.monotonic() > cut_at:
                yield [not_run(suite)]
                continue
            others.append(suite)
            ours, theirs = fork.Pipe(duplex=False)
            own = suite
            if not alone:
                own = replace(suite, command=[*OWN_SHARED_MEMORY, *suite.command])
            place = f"[{begun}/{len(suites)}]"
            process = fork.Process(target=run_in_process, args=(own, place, cut_at, theirs))
            process.start()
            theirs.close()
            running[ours] = (suite, process)
        for answer in multiprocessing.connection.wait(list(running)) if running else []:
            suite, process = running.pop(answer)
            try:
                yield answer.recv()
            except EOFError:
                # What ran it has ended itself: it may not be missing unnoticed.
                yield [not_run(suite)]
            process.join()


def not_run(suite: Suite) -> Result:
    return Result(suite.name, "", "failed", why="was not run")

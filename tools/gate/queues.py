"""Runs suites side by side: those of a queue one after the other, in a process that collects their
orphans, and with a /dev/shm of their own, since tests count what lies there."""

import multiprocessing
import multiprocessing.connection
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace

from gate.output import Result
from gate.processes import collect_orphans
from gate.runner import Suite, run_suite

MOUNTED = 'mount -t tmpfs none /dev/shm && exec "$@"'
OWN_SHARED_MEMORY = ["unshare", "--mount", "sh", "-c", MOUNTED, "sh"]


def may_share() -> bool:
    """Whether a suite can be given a /dev/shm of its own, which needs root."""
    tried = subprocess.run([*OWN_SHARED_MEMORY, "true"], stderr=subprocess.DEVNULL)
    return tried.returncode == 0


def not_run(suite: Suite) -> Result:
    return Result(suite.name, "", "failed", why="was not run")


def run_queue(suites: list[Suite], cut_at: float, answer) -> None:
    collect_orphans()
    for number, suite in enumerate(suites, 1):
        if time.monotonic() < cut_at:
            answer.send(run_suite(suite, f"[{number}/{len(suites)}]", cut_at))
        else:
            answer.send([not_run(suite)])


def run_queues(queues: list[list[Suite]], cut_at: float) -> Iterator[list[Result]]:
    """Yields what each suite came to, in the order in which they end."""
    if not may_share():
        queues = [[suite for queue in queues for suite in queue]]
    elif len(queues) > 1:
        queues = [
            [replace(suite, command=[*OWN_SHARED_MEMORY, *suite.command]) for suite in queue]
            for queue in queues
        ]
    fork = multiprocessing.get_context("fork")
    running = {}
    for queue in filter(None, queues):
        ours, theirs = fork.Pipe(duplex=False)
        process = fork.Process(target=run_queue, args=(queue, cut_at, theirs))
        process.start()
        theirs.close()
        running[ours] = (process, list(queue))
    while running:
        for answer in multiprocessing.connection.wait(list(running)):
            process, left = running[answer]
            try:
                yield answer.recv()
                left.pop(0)
            except EOFError:
                process.join()
                del running[answer]
                # What ran the suites has ended itself: not one of them may be missing unnoticed.
                yield [not_run(suite) for suite in left]

"""Reads what a program of tests prints, a line at a time: which test runs, how each has ended, why.

GoogleTest's own lines are read; `events.py` makes pytest print the same ones.
"""

import re
import time
from collections import deque
from dataclasses import dataclass, field

START = re.compile(r"^\[ RUN      \] (\S.*)$")
LIMIT = re.compile(r"^\[ LIMIT    \] (\d+) s$")
END = re.compile(r"\[ {2,7}(OK|FAILED|SKIPPED) {1,2}\] .*\(\d+ ms\)$")
OUTCOMES = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}


@dataclass
class Result:
    """How one test has ended; a test without a name stands for its whole program."""

    suite: str
    test: str
    outcome: str
    seconds: float = 0.0
    why: str = ""  # beside what it printed itself
    said: list[str] = field(default_factory=list)  # the last lines of a test that failed

    def __str__(self) -> str:
        name = self.test or self.suite
        return f"{name}: {self.why}" if self.why else name


@dataclass
class Reader:
    suite: str
    results: list[Result] = field(default_factory=list)
    running: str = ""
    began: float = 0.0  # when the running test did, by the monotonic clock
    limit_s: int = 0  # which the running test has set for itself; 0: none
    said: deque[str] = field(default_factory=lambda: deque(maxlen=200))

    def read(self, line: str) -> None:
        """Takes in one line of the program's output."""
        self.said.append(line)
        if start := START.match(line):
            if self.running:
                self.end("failed", "its end was lost in what else it printed")
            self.running, self.began, self.limit_s = start[1], time.monotonic(), 0
            self.said.clear()
        elif self.running and (limit := LIMIT.match(line)):
            self.limit_s = int(limit[1])
        elif self.running and (end := END.search(line)):
            self.end(OUTCOMES[end[1]])

    def end(self, outcome: str, why: str = "") -> None:
        """The running test, or where none runs the program, has ended so."""
        seconds = time.monotonic() - self.began if self.running else 0.0
        said = list(self.said) if outcome == "failed" else []
        self.results.append(Result(self.suite, self.running, outcome, seconds, why, said))
        self.running = ""


def count(results: list[Result]) -> str:
    """As in a closing line: `N passed, N failed, N skipped`."""
    outcomes = [result.outcome for result in results]
    return ", ".join(f"{outcomes.count(name)} {name}" for name in ("passed", "failed", "skipped"))

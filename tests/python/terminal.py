"""A terminal in which a person types: a shell in tmux, whose screen tests read."""

import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from processes import PATIENCE_S
from ringwood_command import BINARY, environment


class Terminal:
    def __init__(self, name: str):
        self.tmux = ["tmux", "-L", name, "-f", "/dev/null"]
        self.lines = 0  # that were typed

    def command(self, *words: str) -> str:
        done = subprocess.run(
            [*self.tmux, *words], capture_output=True, text=True, check=True, env=environment()
        )
        return done.stdout

    def screen(self, scrolled: bool = False) -> str:
        """What it shows; with `scrolled` also what has left it at the top."""
        return self.command("capture-pane", "-p", "-t", "0", *(["-S", "-"] if scrolled else []))

    def key(self, *names: str) -> None:
        self.command("send-keys", *names)

    def until(self, pattern: str, seconds: float = PATIENCE_S, scrolled: bool = False) -> str:
        """The first screen on which the pattern is found."""
        deadline = time.monotonic() + seconds
        while not re.search(pattern, now := self.screen(scrolled), re.MULTILINE):
            assert time.monotonic() < deadline, now
            time.sleep(0.1)
        return now

    def run(self, line: str, seconds: float = PATIENCE_S) -> tuple[str, int]:
        """Types a line in the shell; what came of it, and its exit code."""
        self.lines += 1
        end = f"line {self.lines} ended with"
        self.command("send-keys", "-l", f"clear; {line}; echo {end} $?")
        self.key("Enter")
        ended = rf"^{end} (\d+)$"
        text = self.until(ended, seconds, scrolled=True)
        found = re.search(ended, text, re.MULTILINE)
        return text[: found.start()], int(found[1])


@contextmanager
def terminal(
    folder: Path, program: str = "bash --norc", columns: int = 150, rows: int = 40,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Terminal]:  # fmt: skip
    """It runs the program in the folder, with `ringwood` on PATH, and ends with the block."""
    opened = Terminal(f"ringwood-{os.getpid()}")
    path = f"{BINARY.parent}:{os.environ['PATH']}"
    assign = [f"{key}={value}" for key, value in {"PATH": path, **(variables or {})}.items()]
    size = ["-x", str(columns), "-y", str(rows), "-c", str(folder)]
    opened.command("new-session", "-d", *size, f"exec env {shlex.join(assign)} {program}")
    try:
        yield opened
    finally:
        subprocess.run([*opened.tmux, "kill-server"], check=False)

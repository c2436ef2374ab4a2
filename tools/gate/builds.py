"""Builds what the tests need, and tells how long it still takes."""

import os
import re
import subprocess
import sys
import time

from gate.progress import show
from gate.runner import LOGS, ROOT, TOLD_S

# As tools/setup has it: objects that another checkout has compiled serve as well.
COMPILERS_CACHE = {
    "CCACHE_BASEDIR": str(ROOT),
    "CCACHE_NOHASHDIR": "1",
    "CCACHE_SLOPPINESS": "pch_defines,time_macros",  # without it, nothing with such a header
}
PROGRESS = re.compile(r"^\[(\d+)/(\d+)\] ")
SANITIZERS = {"address": "address,undefined", "thread": "thread"}


def time_left(done: int, total: int, seconds: float) -> str:
    """By what has been built so far; nothing while that is too little to judge by."""
    if done < 10 or seconds < TOLD_S:
        return ""
    minutes = seconds / done * (total - done) / 60
    return ", less than a minute left" if minutes < 1 else f", about {minutes:.0f} min left"


def run_shown(command: list[str], log, name: str) -> int:
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**COMPILERS_CACHE, **os.environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    began = told = time.monotonic()
    for line in process.stdout:
        log.write(line)
        if not (progress := PROGRESS.match(line)):
            continue
        now = time.monotonic()
        done, total = int(progress[1]), int(progress[2])
        said = f"    {name}: {done} of {total}{time_left(done, total, now - began)}"
        show(said, end="")
        if not sys.stdout.isatty() and now - told > TOLD_S:
            told = now
            show(said)
    return process.wait()


def build(name: str, commands: list[list[str]]) -> str:
    """What went wrong, or ""."""
    log_path = LOGS / f"{name}.log"
    began = time.monotonic()
    with log_path.open("w") as log:
        failed = any(run_shown(command, log, name) != 0 for command in commands)
    show(f"    {name}: {time.monotonic() - began:.0f} s")
    if not failed:
        return ""
    text = log_path.read_text()
    for line in text[max(text.find("FAILED:"), 0) :].splitlines()[:25]:
        show(f"        {line}")
    return f"the build of {name} failed (log: {log_path.relative_to(ROOT)})"


def build_tests() -> str:
    show("building the tests")
    return build("build-tests", [[".venv/bin/ninja", "-C", "build", "all-tests"]])


def build_sanitized(folder: str, kind: str) -> str:
    configure = [
        ".venv/bin/meson",
        "setup",
        folder,
        f"-Db_sanitize={SANITIZERS[kind]}",
        "-Doptimization=1",
        "-Ddebug=false",
        # Lines in reports: all of -g doubles the time to compile. What the address sanitizer sees
        # by itself is not checked a second time: that takes a sixth of it.
        "-Dcpp_args=-g1 -fno-sanitize=null,object-size,vptr",
        "-Db_lundef=false",
        "-Dbridge=disabled",
        "-Dbenches=false",
    ]
    show(f"building the tests with the {kind} sanitizer in {folder}")
    configured = (ROOT / folder / "build.ninja").exists()
    make = [".venv/bin/ninja", "-C", folder, "all-tests"]
    return build(folder, [make] if configured else [configure, make])

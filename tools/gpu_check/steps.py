"""The steps of `tools/gpu-check run`, each a process of its own whose JSON is its result."""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from gpu_check.carried import CARRIED, is_carried, programs

HERE = Path(__file__).resolve().parent
FIRST = 1 << 20  # bytes: the smallest of the perf steps
MOST_OUTPUT = 6000  # characters of a step that failed
CUDA_PATH = ":/usr/local/cuda/bin"
PATIENCE_S = 5  # for a step that ends itself at its limit
MARK = "GPU_CHECK_STEP"  # a variable that all processes of a step have


@dataclass
class Step:
    name: str
    limit_s: float
    command: list[str]
    writes: Path | None = None  # where its JSON is; None: on standard output
    of_torch: bool = False
    cannot: str = ""  # what it says where it cannot be tried; "": it always can
    result: dict = field(default_factory=dict)
    seconds: float = 0

    @property
    def passed(self) -> bool:
        return self.result.get("ok", False)

    @property
    def skipped(self) -> str:
        """Why it and what builds on it was not tried; "" if it was."""
        return self.result.get("skipped", "")

    def why(self) -> str:
        wrong = [c for c in self.result.get("checks", []) if not c["ok"]]
        if wrong:
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            return f"{wrong[0]['check']}: {wrong[0]['why']}{more}"
        return self.result.get("why", "")


def ended_by(code: int, errors: str) -> str:
    last = errors.strip().splitlines()[-1:] or ["it said nothing"]
    how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    return f"{how}: {last[0]}"


def kept(found: dict) -> list[dict]:
    """What is wrong, or timed, of perf's rows."""
    keys = ("collective", "bytes", "dtype", "op", "algorithm", "segments", "wrong")
    return [
        {key: row.get(key) for key in (*keys, "time_us_best", "time_us_median")}
        for row in found["rows"]
        if row["wrong"] or row["bytes"] >= FIRST
    ]


def of_step(mark: str) -> list[int]:
    """The processes that a step has started, in whatever group or session: what they began with
    has its mark."""
    found = []
    for variables in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in variables.read_bytes().split(b"\0"):
                found.append(int(variables.parent.name))
    return found


def end(process: subprocess.Popen, mark: str) -> tuple[str, str]:
    """With the ranks that it may have left; returns what it still said."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    # One of them may start another one meanwhile.
    while (left := of_step(mark)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    try:
        return process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return "", "it could not be ended"
    except ValueError:  # all of it was read before
        return "", ""


def carry_out(step: Step, limit_s: float, variables: dict[str, str]) -> dict:
    """The JSON that it gives, or {"ok": False, "why": ...}. Nothing of it stays."""
    limit_s = max(limit_s, 1)
    mark = f"{os.getpid()}-{step.name}-{time.monotonic_ns()}"
    marked = {"GPU_CHECK_LIMIT_S": str(limit_s), MARK: mark}
    try:
        process = subprocess.Popen(
            step.command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
            env=os.environ | variables | marked,
        )
    except OSError as error:
        return {"ok": False, "why": str(error)}
    try:
        output, errors = process.communicate(timeout=limit_s + PATIENCE_S)
    except subprocess.TimeoutExpired:
        output, errors = end(process, mark)
        why = f"took longer than {limit_s:.0f} s and was stopped"
        return {"ok": False, "why": why, "output": (output + errors)[-MOST_OUTPUT:]}
    finally:
        end(process, mark)
    try:
        found = json.loads(step.writes.read_text() if step.writes else output)
    except (OSError, ValueError):
        if step.cannot and step.cannot in output + errors:
            return {"ok": True, "skipped": f"{Path(step.command[0]).name}: {step.cannot}"}
        why = ended_by(process.returncode, errors or output)
        return {"ok": False, "why": why, "output": (output + errors)[-MOST_OUTPUT:]}
    found = {"rows": found} if isinstance(found, list) else found
    if step.writes:
        found = {key: found[key] for key in ("environment", "failed")} | {"rows": kept(found)}
    if process.returncode != 0 and found.get("ok", True):
        why = ended_by(process.returncode, errors or output)
        return found | {"ok": False, "why": why, "output": (output + errors)[-MOST_OUTPUT:]}
    return {"ok": True} | found


def of_torch(options: argparse.Namespace, folder: Path) -> list[Step]:
    device = ["--device", "ghost" if options.rehearse else "cuda"]

    def torch(name: str, limit_s: float, script: str, *more: str) -> Step:
        return Step(name, limit_s, [options.python, str(HERE / script), *more], of_torch=True)

    ranks = [*device, "--maxbytes", str(options.maxbytes)]
    tests = [*device, *(["--tests", options.tests] if options.tests else [])]
    fitting = [sys.executable, str(HERE / "bridge.py"), options.python, str(folder / "site")]
    return [
        *([Step("bridge", 240, fitting, of_torch=True)] if is_carried() else []),
        torch("torch", 60, "torch_ranks.py", "facts", *ranks),
        *[torch(f"training-{n}", 90, "torch_ranks.py", "training", str(n), *ranks) for n in (2, 4)],
        torch("peers", 90, "torch_ranks.py", "peers", "2", *ranks),
        torch("tests", 200, "torch_tests.py", *tests),
    ]


def steps_of(options: argparse.Namespace, folder: Path) -> list[Step]:
    where = programs()
    assert where is not None, "main() has looked"
    check, ringwood = str(where / "gpu_check"), str(where / "ringwood")

    def perf(name: str, limit_s: float, *more: str) -> Step:
        writes = folder / f"{name}.json"
        command = [ringwood, "perf", *more, "--json", str(writes), "--timeout", "30"]
        return Step(name, limit_s, command, writes)

    every = ["all", "--memory", "cuda", "-d", "all", "-o", "all", "-b", "4K", "-e", "4K"]
    few = ["-n", "1", "-w", "0", "--batches", "1"]
    last = str(options.maxbytes)
    sweep = ["all_reduce", "-b", str(FIRST), "-e", last, "-f", "4", "--ranks", "2"]
    small = ["all", "--memory", "cuda", "--sizes", "8,4K,1M", "--ranks", "2", *few]
    sanitizer = perf("sanitizer", 90, *small)
    sanitizer.cannot = "Device not supported"
    sanitizer.command[:0] = [
        *("compute-sanitizer", "--tool", "memcheck", "--leak-check", "full"),
        *("--error-exitcode", "9", "--target-processes", "all", "--report-api-errors", "no"),
    ]
    found = shutil.which("compute-sanitizer", path=os.environ.get("PATH", "") + CUDA_PATH)
    sanitizer.command[0] = found or sanitizer.command[0]
    if not found:
        sanitizer.result = {"ok": True, "skipped": "there is no compute-sanitizer on the path"}
    if options.rehearse:
        sanitizer.result = {"ok": True, "skipped": "it looks at NVIDIA's driver only"}
    return [
        Step("facts", 90, [check, "facts"]),
        Step("driver", 60, [check, "driver"]),
        *[perf(f"calls-{n}", 120, *every, *few, "--ranks", str(n)) for n in (2, 3)],
        perf("perf", 120, *sweep, "--memory", "cuda"),
        perf("perf-host", 60, *sweep, "--memory", "shared"),
        *of_torch(options, folder),
        sanitizer,
    ]


def variables(folder: Path) -> dict[str, str]:
    """Of the environment of all steps: where the package is that was carried."""
    if not is_carried():
        return {}
    own = [str(folder / "site"), str(CARRIED / "python"), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, own))}

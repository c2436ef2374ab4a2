"""The tests of the backend's calls, with their tensors on a device: prints one JSON object.

torch_tests.py [--device cuda] [--tests EXPRESSION]

GPU_CHECK_LIMIT_S are the seconds that it may take; what ran until then is told.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "tools"))

from gate.selection import ON_DEVICE  # noqa: E402

NEEDS = ("pytest", "pytest_timeout")
RESERVE_S = 5  # until pytest and its ranks have ended
LINE = re.compile(r"^(?:\S*/)?(\S+::.*) (PASSED|FAILED|ERROR|SKIPPED)")


def run(options: argparse.Namespace) -> dict:
    missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        return {"ok": True, "skipped": f"this Python has no {missing[0]}"}
    folder = ROOT / "tests" / "python" / "backend"
    # Those that take longest come last.
    parts = sorted(ON_DEVICE, key=["training", "coalesced", "overlaps", "collectives"].index)
    files = [folder / f"test_backend_{part}.py" for part in parts]
    narrowed = ["-k", options.tests] if options.tests else []
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *narrowed, *files],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"DEVICE": options.device, "PYTHONUNBUFFERED": "1"},
        process_group=0,  # with the ranks that it forks
    )
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True)
    reader.start()
    limit_s = float(os.environ.get("GPU_CHECK_LIMIT_S", "3600"))
    reader.join(max(limit_s - RESERVE_S, 1))
    in_time = not reader.is_alive()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    reader.join(RESERVE_S)
    return outcome([line.rstrip("\n") for line in lines], process.wait(), in_time)


def outcome(lines: list[str], code: int, in_time: bool) -> dict:
    ended = {match[1]: match[2] for line in lines if (match := LINE.match(line))}
    failed = [name for name, how in ended.items() if how in ("FAILED", "ERROR")]
    found = {
        "ok": not failed and "PASSED" in ended.values() and (code == 0 or not in_time),
        "passed_tests": sum(how == "PASSED" for how in ended.values()),
        "skipped_tests": sum(how == "SKIPPED" for how in ended.values()),
        "failed": failed,
        "all_ran": in_time,
    }
    if not found["ok"]:
        found["why"] = f"failed: {', '.join(failed[:3])}" if failed else (lines or ["nothing"])[-1]
        found["output"] = "\n".join(lines)[-6000:]
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tests", help="those only, as of pytest -k")
    print(json.dumps(run(parser.parse_args())))

"""What is true of every test: it leaves no process and no shared memory behind."""

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import EXAMPLES, ROOT, descendants, processes, release_ports

sys.path[:0] = [str(EXAMPLES), str(ROOT / "tools")]
PLACES = ("bench", "bench/scale", "tests/python/commands", "tests/python/doctor")
sys.path += [str(ROOT / place) for place in PLACES]
PR_SET_CHILD_SUBREAPER = 36
SHARED_MEMORY = Path("/dev/shm")
# Twelve times as long as until a data loading process looks for its parent. What leaves at once is
# not waited for.
LEAVING_S = 60


def pytest_configure(config) -> None:
    # Orphans of a test become our children, where `nothing_stays` finds them.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if "GATE_LISTED" in os.environ:  # tools/test runs this
        from gate.events import Events

        config.pluginmanager.register(Events(config), "gate-events")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem) -> bool | None:
    """Tests marked `fresh` run in a pytest of their own, with a heap that no test has used before:
    ranks are forked from it, and what malloc() gives them depends on what was freed."""
    if not pyfuncitem.get_closest_marker("fresh") or os.environ.get("FRESH") == pyfuncitem.nodeid:
        return None
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", pyfuncitem.nodeid],
        cwd=ROOT,
        env={**os.environ, "FRESH": pyfuncitem.nodeid},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return True


def reap_orphans() -> None:
    """Takes the status of remapped processes that have ended."""
    for pid, (parent, state) in processes().items():
        if parent == os.getpid() and state == "Z":
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue


def command_of(pid: int) -> str | None:
    """None of a process that has ended, perhaps while it was looked at."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return None


def wait_until_empty(left_over) -> list:
    """What is left in the end."""
    deadline = time.monotonic() + LEAVING_S
    while (left := left_over()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


@pytest.fixture(autouse=True)
def nothing_stays():
    before = set(descendants(os.getpid()))
    memory = set(SHARED_MEMORY.iterdir())

    def running() -> list[str]:
        reap_orphans()
        left = (command_of(pid) for pid in descendants(os.getpid()) if pid not in before)
        return [command for command in left if command is not None]

    yield
    release_ports()
    left = wait_until_empty(running)
    assert not left, f"processes are left: {left}"
    # CUDA's driver leaves some of its own behind processes that end at once.
    names = wait_until_empty(
        lambda: sorted(
            f for f in set(SHARED_MEMORY.iterdir()) - memory if not f.name.startswith("cuda.shm.")
        )
    )
    assert not names, f"shared memory is left: {names}"


@pytest.fixture(scope="session")
def backend() -> str:
    """BACKEND=gloo runs these tests over another backend, to tell whose fault a failure is."""
    return os.environ.get("BACKEND", "ringwood")


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory) -> Path:
    import digits

    folder = tmp_path_factory.mktemp("datasets")
    digits.write_digits(folder / "digits")
    return folder

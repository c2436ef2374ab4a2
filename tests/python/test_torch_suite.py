"""PyTorch's own distributed tests over Ringwood."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = Path(__file__).with_name("torch_suite.py")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_of_them_pass():
    pytest.importorskip("expecttest")
    done = subprocess.run([sys.executable, SUITE], capture_output=True, text=True)
    last = done.stdout.splitlines()[-1]
    assert re.match(r"87 passed, 0 failed, \d+ skipped$", last), done.stdout[-8000:] + done.stderr
    assert done.returncode == 0

"""`ringwood perf --memory cuda`, with a double of NVIDIA's driver."""

import json
import subprocess

import pytest
from ringwood_command import BINARY, run


def test_every_operation_is_measured_and_right(tmp_path, double):
    file = tmp_path / "out.json"
    sizes = ["--sizes", "8,4K,256K"]
    more = ["-n", "2", "--batches", "1", "--ranks", "3", "--json", str(file)]
    done = run("perf", "all", "--memory", "cuda", *sizes, *more, **double)
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())["rows"]
    assert len({row["collective"] for row in rows}) == 10
    assert all(row["wrong"] == 0 for row in rows)
    assert all(row["predicted_us"] is None for row in rows)
    # A premultiplied sum, of types that are scaled before and as they are added.
    done = run(
        "perf", "all_reduce", "--memory", "cuda", "-o", "premul_sum", "-d", "float32,bfloat16",
        "--sizes", "4K", *more, **double,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_algorithms_take_turns_on_it(double):
    done = run(
        "perf", "all_reduce", "--memory", "cuda", "--algorithm", "ring,double_tree",
        "--sizes", "64K",
        "-n", "2", "--batches", "1", "--ranks", "2", **double,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "ring" in done.stdout


def test_no_driver_is_one_sentence(no_gpu):
    done = run("perf", "all_reduce", "--memory", "cuda", "--ranks", "2")
    assert done.returncode == 1
    assert done.stderr.count("install NVIDIA's driver") == 1, done.stderr


def test_switched_off_is_said(double):
    done = run("perf", "all_reduce", "--memory", "cuda", RINGWOOD_CUDA="0", **double)
    assert done.returncode == 1
    assert "RINGWOOD_CUDA=0 switches it off: unset it" in done.stderr


def test_a_job_on_the_hosts_memory_opens_no_cuda_library(tmp_path, double):
    """Not the one that is installed, and not the one that is named."""
    told = subprocess.run(["ldd", str(BINARY)], capture_output=True, text=True, check=True).stdout
    assert "libc.so" in told
    assert "cuda" not in told
    job = ["perf", "all_reduce", "--ranks", "2", "--sizes", "1K", "--batches", "1"]
    loader = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(tmp_path / "opened")}
    done = run(*job, **double, **loader)
    assert done.returncode == 0, done.stderr
    opened = "".join(file.read_text() for file in tmp_path.glob("opened.*"))
    assert "libc.so" in opened
    assert "libcuda" not in opened


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--touch"], "--touch is of the host's memory"),
        (["--format", "nccl-tests"], "in our own format only"),
        (["--replay", "."], "leave out"),
    ],
)
def test_what_is_not_measured_on_it_is_refused(more, words):
    collective = [] if more[0] == "--replay" else ["all_reduce"]
    done = run("perf", *collective, "--memory", "cuda", *more)
    assert done.returncode == 2
    assert words in done.stderr

"""`tools/gpu-check`, with a double of NVIDIA's driver."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import PATIENCE_S
from ringwood_command import ROOT, environment
from wakeups import growing_limit, measures_again

CHECK = ROOT / "tools" / "gpu-check"
# The one that hangs has a rank, which hangs, too.
ONE_ENDS_AND_ONE_HANGS = """
import os, time

def test_that_ends():
    pass

def test_that_hangs():
    os.fork()
    time.sleep(300)
    os._exit(1)
"""


def gpu_check(*arguments: str, check: Path = CHECK, **more: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(check), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment(**more),
    )


def only(*steps: str) -> list[str]:
    return [word for step in steps for word in ("--only", step)]


def copy_of_the_tree(to: Path) -> Path:
    """What travels to another machine: what git knows of, and no build."""
    names = subprocess.check_output(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, text=True
    )
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    return to


def test_no_gpu_is_one_sentence(tmp_path, no_gpu):
    done = gpu_check("run", "--out", str(tmp_path))
    assert done.returncode == 1
    assert "run it on a machine with an NVIDIA GPU" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def test_the_double_is_no_proof(tmp_path, double):
    done = gpu_check("run", "--out", str(tmp_path), **double)
    assert done.returncode == 1
    assert "stands in for NVIDIA's driver" in done.stderr


def test_all_steps_rehearsed(tmp_path, double):
    some = ["--maxbytes", "4194304", "--tests", "test_managed_calls_in_place"]
    done = gpu_check("run", "--out", str(tmp_path), "--rehearse", *some, **double)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "gpu-check.json").read_text())
    assert found["rehearsal"]
    assert found["carried"] == {}, "the tree's own build is used"
    assert all(step["passed"] for step in found["steps"]), found
    assert [bar["bytes"] for bar in found["bars"]] == [1 << 20, 1 << 22]
    steps = {step["step"]: step for step in found["steps"]}
    assert len(steps["driver"]["checks"]) == 10
    assert {name for name, step in steps.items() if "skipped" in step} == {"sanitizer"}
    assert steps["training-4"]["error"].keys() == {"ddp", "fsdp2"}
    assert steps["peers"]["ringwood_us"].keys() == {"8", "4096", "65536", "1048576"}
    assert (steps["tests"]["passed_tests"], steps["tests"]["all_ran"]) == (1, True)


def test_a_rule_that_is_broken_is_named(tmp_path, double):
    more = double | {"FAKE_CUDA_FAIL": "cuStreamWriteValue32:1=999"}
    some = only("driver", "calls-2")
    done = gpu_check("run", "--out", str(tmp_path), "--rehearse", *some, **more)
    assert done.returncode >= 1
    assert "cuStreamWriteValue32 on device 0: error 999" in done.stdout
    found = json.loads((tmp_path / "gpu-check.json").read_text())
    assert [step["step"] for step in found["steps"]] == ["driver", "calls-2"], "all were run"


def test_a_step_that_is_not_there(tmp_path, double):
    done = gpu_check("run", "--out", str(tmp_path), "--rehearse", "--only", "kernels", **double)
    assert done.returncode == 1
    assert "no step kernels; there are facts, driver" in done.stderr


def test_a_step_is_skipped_for_its_own_words_only(tmp_path):
    """What compute-sanitizer says of a device that it cannot look at is an error of all others."""
    for name in ("compute-sanitizer", "their-python"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'Error: Device not supported'\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    steps = [*only("torch", "sanitizer"), "--python", str(tmp_path / "their-python")]
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = gpu_check("run", "--out", str(tmp_path), *steps, PATH=path)
    assert done.returncode == 1, done.stdout + done.stderr
    torch, sanitizer = json.loads((tmp_path / "gpu-check.json").read_text())["steps"]
    assert "skipped" not in torch
    assert torch["why"] == "ended with code 1: Error: Device not supported"
    assert sanitizer["skipped"] == "compute-sanitizer: Device not supported"


@pytest.mark.parametrize("ends", [True, False], ids=["ends", "hangs"])
def test_nothing_of_a_step_stays(ends, tmp_path, monkeypatch):
    """Its ranks may have groups and sessions of their own."""
    from gpu_check import steps

    monkeypatch.setattr(steps, "PATIENCE_S", 0.5)
    rank = tmp_path / "rank"
    script = f"setsid sh -c 'echo $$ > {rank}; sleep 300' < /dev/null > /dev/null 2>&1 & "
    script += f"while [ ! -s {rank} ]; do sleep 0.01; done; {'echo {}' if ends else 'sleep 300'}"
    result = steps.carry_out(steps.Step("ranks", 1, ["sh", "-c", script]), 1, {})
    assert result["ok"] == ends
    left = Path(f"/proc/{rank.read_text().strip()}/cmdline")
    assert not left.exists() or not left.read_bytes()  # ended, and perhaps not reaped yet


def test_bars_beside_gloo():
    from gpu_check.bars import gloo
    from gpu_check.steps import Step

    ours = {"8": 50.0, "4096": 60.0, "1048576": 100.0, "268435456": 90.0}
    theirs = {"8": 99.0, "4096": 1.0, "1048576": 300.0, "268435456": 269.0}
    step = Step("peers", 1, [], result={"ringwood_us": ours, "gloo_us": theirs})
    reached = {bar["bytes"]: bar["reached"] for bar in gloo({"peers": step})}
    assert reached == {8: False, 1 << 20: True, 1 << 28: False}, "4 KiB has no bar"


def test_what_ran_of_the_tests_until_the_limit():
    from gpu_check.torch_tests import outcome

    lines = ["tests/x.py::test_a PASSED [ 5%]", "tests/x.py::test_b[1 2] SKIPPED (why)", "!! stop"]
    cut = outcome(lines, 2, in_time=False)
    assert (cut["ok"], cut["passed_tests"], cut["skipped_tests"], cut["all_ran"]) == (
        True, 1, 1, False,
    )  # fmt: skip
    assert not outcome(lines, 2, in_time=True)["ok"], "pytest itself failed"
    failed = outcome([*lines, "tests/x.py::test_c FAILED"], 1, in_time=True)
    assert (failed["ok"], failed["failed"]) == (False, ["x.py::test_c"])
    assert not outcome(["no tests ran"], 5, in_time=True)["ok"]


@measures_again
def test_tests_that_reach_their_limit_tell_what_ran(tmp_path):
    """Before the step is ended, which has only seconds after that: pytest itself would wait much
    longer for the rank of the test that is cut."""
    from gate.selection import ON_DEVICE
    from gpu_check.run import RESERVE_S

    check = copy_of_the_tree(tmp_path / "tree") / "tools" / "gpu-check"
    (tmp_path / "tree" / "build").symlink_to(ROOT / "build")
    backend = tmp_path / "tree" / "tests" / "python" / "backend"
    (backend / "conftest.py").unlink()  # it imports torch, for seconds
    for part in ON_DEVICE:
        (backend / f"test_backend_{part}.py").write_text(ONE_ENDS_AND_ONE_HANGS)

    def run(limit_s: float) -> None:
        own = ["--python", sys.executable, "--minutes", str((RESERVE_S + limit_s) / 60)]
        out = tmp_path / "out"
        done = gpu_check("run", "--out", str(out), "--rehearse", *only("tests"), *own, check=check)
        assert done.returncode == 0, done.stdout + done.stderr
        (step,) = json.loads((out / "gpu-check.json").read_text())["steps"]
        assert (step["passed_tests"], step["failed"], step["all_ran"]) == (1, [], False), step

    growing_limit(run, 8)  # one test has to end within it


def test_a_tree_without_a_build(tmp_path):
    check = copy_of_the_tree(tmp_path) / "tools" / "gpu-check"
    done = gpu_check("run", "--out", str(tmp_path / "out"), check=check)
    assert done.returncode == 1
    assert "run tools/setup, or bring the folder .gpu that `gpu-check prepare`" in done.stderr
    done = gpu_check("prepare", "--python", "python9.9", check=check)
    assert done.returncode == 1
    assert "there is no python9.9 that runs: install it, or name the Python" in done.stderr
    done = gpu_check("prepare", "--python", sys.executable, check=check)
    assert done.returncode == 1
    assert "gpu_check: run tools/setup" in done.stderr
    assert not (tmp_path / ".gpu").exists()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_what_was_prepared_is_used_where_nothing_is_built(tmp_path, double):
    """With the torch of this tree: as it was carried, and compiled there where that is broken."""
    if (ROOT / ".gpu").exists():
        pytest.skip(".gpu is of somebody: it would be overwritten")
    made = subprocess.run([CHECK, "prepare", "--python", sys.executable], env=environment())
    shutil.move(ROOT / ".gpu", tmp_path / ".gpu")
    assert made.returncode == 0
    check = copy_of_the_tree(tmp_path) / "tools" / "gpu-check"
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "tests").symlink_to(ROOT / "build" / "tests")  # the ghost, the double
    run = [
        *("run", "--rehearse", "--out", str(tmp_path / "out"), "--python", sys.executable),
        *only("facts", "driver", "calls-2", "bridge", "torch", "training-2"),
    ]
    for bridge in ("the carried one", "compiled here"):
        done = subprocess.run([check, *run], env=environment(**double), capture_output=True)
        assert done.returncode == 0, done.stdout
        found = json.loads((tmp_path / "out" / "gpu-check.json").read_text())
        pins = (ROOT / "tools" / "versions").read_text()
        assert f"pip torch=={found['carried']['torch']}\n" in pins
        steps = {step["step"]: step for step in found["steps"]}
        assert steps["bridge"]["bridge"].startswith(bridge), steps["bridge"]
        assert not any("skipped" in step for step in found["steps"]), found
        for file in (tmp_path / ".gpu" / "python").rglob("_C_*.so"):
            file.unlink()

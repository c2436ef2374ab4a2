"""tools/gpu-check without a GPU: on the double of the driver all of its steps pass, what fails is
named, and it runs from a folder of its own."""

import ctypes.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ringwood_command import environment

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("GPU_CHECK_BUILD") or ROOT / "build")
PROGRAM = BUILD / "tools" / "gpu_check"
DOUBLE = BUILD / "tests" / "libcuda.so.1"
KERNELS = BUILD / "tests" / "libdevice_kernels.so"
OWN = {"driver", "conversions", "ranks-2", "ranks-4", "ranks-8", "processes", "faults", "perf"}
# What takes least, for tests of the frame.
FEW = "driver,faults,ranks-2"

pytestmark = [
    pytest.mark.skipif(not DOUBLE.exists(), reason="this build has no double of the driver"),
    pytest.mark.skipif(
        not list(BUILD.glob("collectives/device/kernel/kernels-*.fatbin")),
        reason="this build has no CUDA compiler",
    ),
]


def gpu_check(
    folder: Path, *arguments: str, script: Path | None = None, double: bool = True, **more: str
) -> subprocess.CompletedProcess:
    ours = environment(**more)
    for name in [name for name in ours if name.startswith("FAKE_CUDA") and name not in more]:
        del ours[name]
    if double:
        ours |= {"LD_LIBRARY_PATH": str(DOUBLE.parent), "FAKE_CUDA_KERNELS": str(KERNELS)}
    own = [] if script else ["--program", str(PROGRAM)]
    return subprocess.run(
        [sys.executable, str(script or ROOT / "tools" / "gpu-check"), *own, *arguments],
        cwd=folder,
        env=ours,
        capture_output=True,
        text=True,
        timeout=100,
    )


def steps_in(folder: Path) -> dict[str, dict]:
    found = json.loads((folder / "gpu-check.json").read_text())
    return {step["step"]: step for step in found["steps"]}


@pytest.mark.parametrize("devices", [1, 2])
def test_all_steps_pass_on_the_double(tmp_path, devices):
    done = gpu_check(tmp_path, "--quick", FAKE_CUDA_DEVICES=str(devices))
    assert done.returncode == 0, done.stdout + done.stderr
    steps = steps_in(tmp_path)
    for name in OWN | {"facts"}:
        assert steps[name]["state"] == "pass", (name, steps[name])
        assert f"{name}: pass" in done.stdout or name == "facts"
    for name in ("sanitizer", "torch", "nccl"):
        assert steps[name]["state"] == "not applicable" and steps[name]["why"], steps[name]
    assert len(steps["facts"]["devices"]) == devices
    assert steps["facts"]["peer_access"] == [[1] * devices] * devices
    assert all(step.get("cases_of_4", 1) > 0 for step in steps.values())
    assert steps["conversions"]["bfloat16_values"] > 6 * 65536
    assert steps["perf"]["rows"] and steps["perf"]["figures"]["copy_bytes_s"] > 0
    bars = {
        bar["bar"]: bar for bar in json.loads((tmp_path / "gpu-check.json").read_text())["bars"]
    }
    assert bars["G1"]["state"] == ("not applicable" if devices == 2 else bars["G1"]["state"])
    assert bars["G4"]["state"] == "not applicable" and bars["G5"]["value"] > 0


def test_what_fails_is_named_and_the_rest_runs(tmp_path):
    done = gpu_check(
        tmp_path, "--quick", "--steps", FEW, FAKE_CUDA_FAIL="cuMemGetAddressRange:1=801"
    )
    assert done.returncode == 1, done.stdout + done.stderr
    steps = steps_in(tmp_path)
    assert {name for name, step in steps.items() if step["state"] == "FAIL"} == {"driver"}
    assert "CUDA_ERROR_NOT_SUPPORTED" in steps["driver"]["why"]
    assert "driver: FAIL: cuMemGetAddressRange knows mapped memory" in done.stdout
    # Of its checks the others have run, too.
    assert sum(check["ok"] for check in steps["driver"]["checks"]) == 11


def test_what_crashes_is_named(tmp_path):
    crashes = tmp_path / "crashes"
    crashes.write_text(f'#!/bin/sh\n[ "$1" = faults ] && kill -SEGV $$\nexec {PROGRAM} "$@"\n')
    crashes.chmod(0o755)
    done = gpu_check(tmp_path, "--quick", "--steps", FEW, "--program", str(crashes))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "faults: FAIL: ended by SIGSEGV" in done.stdout
    assert steps_in(tmp_path)["ranks-2"]["state"] == "pass"


def test_more_ranks_than_run_at_once_are_refused(tmp_path):
    ours = environment(
        LD_LIBRARY_PATH=str(DOUBLE.parent),
        FAKE_CUDA_KERNELS=str(KERNELS),
        FAKE_CUDA_DEVICES="1",
    )
    done = subprocess.run(
        [PROGRAM, "ranks", "ranks=9"], env=ours, capture_output=True, text=True, timeout=60
    )
    checks = json.loads(done.stdout)["checks"]
    assert checks[0]["ok"] is None
    assert "9 ranks of 4 blocks on device 0, where 32 blocks run at once" in checks[0]["why"]


def without_a_traceback(done: subprocess.CompletedProcess, *parts: str) -> None:
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("gpu-check: no GPU can be used here: ")
    for part in parts:
        assert part in done.stderr


def test_no_driver_and_an_old_one_are_one_sentence(tmp_path):
    if not ctypes.util.find_library("cuda"):  # this machine has no driver of its own
        missing = gpu_check(tmp_path, double=False)
        without_a_traceback(missing, "libcuda.so.1", "install NVIDIA's driver", "nvidia-smi")
    old = gpu_check(tmp_path, FAKE_CUDA_DRIVER="11080")
    without_a_traceback(old, "supports CUDA 11.8, and 12.0 is needed", "driver 525")
    none = gpu_check(tmp_path, FAKE_CUDA_DEVICES="0")
    without_a_traceback(none, "CUDA_ERROR_NO_DEVICE")
    assert not list(tmp_path.iterdir())


def test_a_prepared_folder_runs_elsewhere(tmp_path):
    prepared, elsewhere = tmp_path / "prepared", tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = gpu_check(tmp_path, "--prepare", str(prepared))
    assert done.returncode == 0, done.stderr
    assert "./gpu-check" in (prepared / "README").read_text()
    assert any(path.name.startswith("libfmt") for path in (prepared / "lib").iterdir())
    moved = prepared.rename(tmp_path / "moved")
    done = gpu_check(elsewhere, "--quick", "--steps", "driver", script=moved / "gpu-check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert steps_in(elsewhere)["driver"]["state"] == "pass"

"""`tools/gpu-check run`: the steps one after the other, and what came of them after each."""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

from gpu_check.bars import bars, sentence
from gpu_check.carried import BUILT, of_what, programs
from gpu_check.steps import Step, carry_out, steps_of, variables

REMEDY = "run it on a machine with an NVIDIA GPU, where nvidia-smi lists it"
RESERVE_S = 30  # of the time that was given, for the machine to take the results


def write(file: Path, options: argparse.Namespace, steps: list[Step], began: float) -> list[dict]:
    done = {step.name: step for step in steps}
    targets = bars(done)
    found = {
        "when": time.strftime("%Y-%m-%d %H:%M:%S"),
        "machine": {"kernel": platform.release(), "cpus": os.cpu_count()},
        "carried": of_what(),
        "rehearsal": options.rehearse,
        "seconds": round(time.monotonic() - began, 1),
        "steps": [
            {"step": s.name, "passed": s.passed, "seconds": s.seconds, "why": s.why()} | s.result
            for s in steps
            if s.seconds > 0
        ],
        "bars": targets,
    }
    file.write_text(json.dumps(found, indent=1) + "\n")
    return targets


def run(options: argparse.Namespace) -> int:
    began = time.monotonic()
    if os.environ.get("RINGWOOD_CUDA_LIBRARY") and not options.rehearse:
        print(
            "gpu-check: RINGWOOD_CUDA_LIBRARY stands in for NVIDIA's driver, which this is about: "
            "unset it, or say --rehearse",
            file=sys.stderr,
        )
        return 1
    if programs() is None:
        print(
            f"gpu-check: there is no {BUILT / 'gpu_check'}: run tools/setup, or bring the folder "
            ".gpu that `gpu-check prepare` fills where there is a build",
            file=sys.stderr,
        )
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        steps = steps_of(options, Path(folder))
        names = [step.name for step in steps]
        if unknown := [name for name in options.only if name not in names]:
            print(f"gpu-check: no step {unknown[0]}; there are {', '.join(names)}", file=sys.stderr)
            return 1
        wanted = set(options.only or names)
        if any(step.of_torch and step.name in wanted for step in steps):
            wanted.add("bridge")  # which the others need
        chosen = [step for step in steps if step.name in wanted]
        return run_steps(chosen, options, began, variables(Path(folder)))


def carried_out(step: Step, before: list[Step], left_s: float, more: dict[str, str]) -> dict:
    no_torch = next((s.skipped for s in before if s.of_torch and s.skipped), "")
    if step.skipped:
        return step.result
    if step.of_torch and no_torch:
        return {"ok": True, "skipped": no_torch}
    if left_s < 2:
        return {"ok": False, "why": "no time was left for it"}
    return carry_out(step, min(step.limit_s, left_s), more)


def run_steps(
    steps: list[Step], options: argparse.Namespace, began: float, more: dict[str, str]
) -> int:
    targets: list[dict] = []
    file = options.out / "gpu-check.json"
    for number, step in enumerate(steps, 1):
        start = time.monotonic()
        left_s = 60 * options.minutes - RESERVE_S - (start - began)
        step.result = carried_out(step, steps[: number - 1], left_s, more)
        step.seconds = round(max(time.monotonic() - start, 0.01), 2)
        if "no_driver" in step.result:
            print(f"gpu-check: {step.result['no_driver']}; {REMEDY}", file=sys.stderr)
            return 1
        targets = write(file, options, steps, began)
        said = "passed" if step.passed else f"FAILED: {step.why()}"
        said = f"skipped: {step.skipped}" if step.skipped else said
        print(f"[{number}/{len(steps)}] {step.name}: {said} ({step.seconds:.1f} s)", flush=True)
    for target in targets:
        print(sentence(target))
    failed = sum(not step.passed for step in steps)
    print(f"{failed} of {len(steps)} steps failed; all of it is in {file}")
    return failed

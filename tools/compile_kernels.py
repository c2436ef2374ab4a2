"""Compiles the kernels of GPUs: CUDA C++ -> PTX -> machine code by architecture -> a fat binary.

    tools/compile_kernels.py NVCC SOURCE SET INCLUDE OUTPUT.fatbin DEPENDENCIES

There is one PTX, for the oldest architecture: it is what is assembled for all of them, what the
driver of a later one compiles, and what tests carry out (tests/ptx). Beside OUTPUT.fatbin it leaves
OUTPUT.ptx, OUTPUT.smNN.cubin, OUTPUT.h with its size, OUTPUT.json with each kernel's registers,
stack, spills and shared memory, and DEPENDENCIES for the build. Warnings are errors, and so is a
register that spills.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

OLDEST = 80
ARCHITECTURES = (80, 90, 100)
ENTRY = re.compile(r"Compiling entry function '(\w+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def run(command: list[str]) -> str:
    """What it said. Ends this program with it where the command fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}")
    return done.stdout


def resources(said: str) -> dict[str, dict[str, int]]:
    """By kernel, from what `ptxas -v` says; with those of the functions that it calls."""
    found, kernel = {}, ""
    for line in said.splitlines():
        if entry := ENTRY.search(line):
            kernel = entry[1]
        elif kernel and (frame := FRAME.search(line)):
            numbers = found.setdefault(kernel, {"stack": 0, "spilled": 0})
            numbers["stack"] += int(frame[1])
            numbers["spilled"] += int(frame[2]) + int(frame[3])
        elif kernel and (used := USED.search(line)):
            shared = SHARED.search(line)
            found[kernel] |= {"registers": int(used[1]), "shared": int(shared[1]) if shared else 0}
    return found


def main(arguments: list[str]) -> None:
    nvcc, source, kernel_set, include, fatbin, needs = arguments
    beside = Path(nvcc).parent
    output = Path(fatbin)
    ptx = output.with_suffix(".ptx")
    options = ["-std=c++20", "-O3", "-fmad=false", f"-I{include}", f"-DKERNEL_SET={kernel_set}"]
    dependencies = ["-MD", "-MF", needs, "-MT", fatbin]
    arch = ["-ptx", f"-arch=compute_{OLDEST}", "-Werror", "all-warnings"]
    run([nvcc, *arch, *options, *dependencies, "-o", str(ptx), source])
    images, found = [], {}
    for architecture in ARCHITECTURES:
        cubin = output.with_suffix(f".sm{architecture}.cubin")
        command = [str(beside / "ptxas"), "-O3", f"-arch=sm_{architecture}", "-v", "-warn-spills"]
        found[f"sm_{architecture}"] = resources(
            run([*command, "-Werror", str(ptx), "-o", str(cubin)])
        )
        images.append(f"--image3=kind=elf,sm={architecture},file={cubin}")
    images.append(f"--image3=kind=ptx,sm={OLDEST},file={ptx}")
    run([str(beside / "fatbinary"), "-64", f"--create={fatbin}", "--compress-all", *images])
    output.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
    # What includes it is compiled anew with the binary.
    size = f"inline constexpr unsigned long kKernelBytes{kernel_set} = {output.stat().st_size};\n"
    output.with_suffix(".h").write_text(f"#pragma once\n\n{size}")


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    main(sys.argv[1:])

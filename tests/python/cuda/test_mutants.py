"""Kernels that are broken in one place are refuted by their PTX (tests/ptx): a lost release, a flag
before its data, a slot used again too early, a wrong parity."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
KERNEL = ROOT / "collectives" / "device" / "kernel"
RUN = Path(os.environ.get("RINGWOOD_RUN_PTX", ROOT / "build" / "tests" / "run_ptx"))
NVCC = sorted(ROOT.glob(".venv/lib/python3*/site-packages/nvidia/cu13/bin/nvcc"))
SOURCE = """
#include "collectives/device/kernel/cuda_machine.h"
using namespace ringwood::device;
extern "C" __global__ void __launch_bounds__(512, 1)
    ringwood_float32_sum(const __grid_constant__ Launch launch) {
  __shared__ BlockMemory shared;
  CudaMachine machine;
  Interpreter<Float32, Fold::sum, CudaMachine>(machine, shared, launch).run();
}
"""
# Row, ranks, elements, segments, way, operations back to back, threads of a block, seeds.
CASES = (
    "direct 3 20 2 bulk 3 2 5",
    "one_shot 3 9 1 packets 4 2 10",
    "ring 3 30 1 bulk 3 2 5",
    "direct 3 150 1 staged 3 3 5",
    "direct 4 9 1 packets 4 2 5",
    "ring 4 40 2 packets 3 2 3",
)
PLACES = (
    "    for (int space = 0; space < kSharedSpaces; ++space)\n      m_.store_relaxed(&hello->place"
)
# File, what stands there, what stands there instead. Not among them: a wait without its barrier,
# since a pass begins with another one; it is for waits that fail, which all threads have to leave.
MUTANTS = {
    "a wait that acquires nothing": (
        "interpret.h",
        "m_.load_acquire(point) >= expected",
        "m_.load_relaxed(point) >= expected",
    ),
    "a hello that is heard without acquiring": (
        "interpret.h",
        "m_.load_acquire(&hello->stamp)",
        "m_.load_relaxed(&hello->stamp)",
    ),
    "a post that releases nothing": (
        "interpret.h",
        "m_.store_release(at<uint64_t>(to.rank",
        "m_.store_relaxed(at<uint64_t>(to.rank",
    ),
    "a hello that releases nothing": (
        "interpret.h",
        "m_.store_release(&hello->stamp",
        "m_.store_relaxed(&hello->stamp",
    ),
    "a hello before its places": (
        "interpret.h",
        PLACES,
        f"    m_.store_release(&hello->stamp, stamp() | a_.digest);\n{PLACES}",
    ),
    "a wait that is left out": ("interpret.h", "bad = wait(word);", "bad = false;"),
    "hellos that are not doubled": ("interpret.h", "window.hello(v_ & 1,", "window.hello(0,"),
    "packets that are not doubled": ("interpret.h", "window.packets(v_ & 1,", "window.packets(0,"),
    "packets of the other parity at their reader": (
        "interpret.h",
        "window.packets(v_ & 1,",
        "window.packets((v_ + (operand.rank == a_.rank)) & 1,",
    ),
    "hearing without a barrier": (
        "interpret.h",
        "if (peer != a_.rank) bad = !hear(peer);\n    return m_.sync_any(bad);",
        "if (peer != a_.rank) bad = !hear(peer);\n    return bad;",
    ),
    "a pass without the barrier before it": (
        "interpret.h",
        "    m_.sync();\n    Mover",
        "    Mover",
    ),
    "a pass without the barrier after it": (
        "interpret.h",
        "return m_.sync_any(!mover.move());",
        "return !mover.move();",
    ),
    "a staging that is never filled": (
        "interpret.h",
        "word = read(++next)) pass(word);",
        "word = read(++next)) post(word);",
    ),
    "an operation that does not count": (
        "interpret.h",
        "window.sequence(segment_)) = v_;",
        "window.sequence(segment_)) = v_ - 1;",
    ),
    "points of any operation": ("interpret.h", "v_ << 16 |", "uint64_t(1) << 16 |"),
    "hellos that nobody waits for": ("interpret.h", "kEarly) && !heard", "kEarly) && false"),
    "a post of one more": ("interpret.h", "v_ << 16 | to.number", "v_ << 16 | (to.number + 1)"),
    "a wait for one less": (
        "interpret.h",
        "v_ << 16 | from.number",
        "(v_ << 16 | from.number) - 1",
    ),
    "any packet that is not new memory": (
        "move.h",
        "packet >> 32 == (v & 0xffffffffu)",
        "packet >> 32 != 0",
    ),
    "a packet that is no flag": ("move.h", "m.store_relaxed(slot + p,", "m.store(slot + p,"),
    "vectors past the end": (
        "move.h",
        "if (at < end) m.store(reinterpret_cast<Vector*>",
        "m.store(reinterpret_cast<Vector*>",
    ),
    "elements of which the first are left out": ("move.h", "head + end - tail", "end - tail"),
    "only one destination": (
        "move.h",
        "for (int k = 0; k < w.dsts; ++k) {\n      RINGWOOD_UNROLL",
        "for (int k = 0; k < 1; ++k) {\n      RINGWOOD_UNROLL",
    ),
    "a barrier that nobody waits at": ("cuda_machine.h", "__syncthreads();", ""),
    "an agreement without a barrier": (
        "cuda_machine.h",
        "return __syncthreads_or(any) != 0;",
        "return any;",
    ),
    "flags that only one device sees": (
        "cuda_machine.h",
        "cuda::thread_scope_system",
        "cuda::thread_scope_device",
    ),
}

pytestmark = pytest.mark.skipif(
    not NVCC or not RUN.exists(), reason="this build has no CUDA compiler"
)


def ptx_of(folder: Path, mutant: tuple[str, str, str] | None) -> Path:
    """The kernel of fp32 sums, whole or broken in one place."""
    copy = folder / "collectives" / "device" / "kernel"
    shutil.copytree(KERNEL, copy)
    if mutant:
        file, before, after = mutant
        text = (copy / file).read_text()
        assert before in text, f"{file} has no {before!r} any more"
        (copy / file).write_text(text.replace(before, after))
    source, ptx = folder / "kernel.cu", folder / "kernel.ptx"
    source.write_text(SOURCE)
    options = ["-std=c++20", "-O3", "-fmad=false", "-arch=compute_80", f"-I{folder}", "-ptx"]
    done = subprocess.run([NVCC[0], *options, "-o", ptx, source], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return ptx


def refuted(ptx: Path) -> str:
    """By what; "" if each case comes out right."""
    for case in CASES:
        done = subprocess.run([RUN, ptx, *case.split()], capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr
        if done.returncode == 1:
            return f"{case}: {done.stdout.strip()}"
    return ""


def test_the_kernel_itself_is_right(tmp_path):
    assert refuted(ptx_of(tmp_path, None)) == ""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_refuted(name, tmp_path):
    how = refuted(ptx_of(tmp_path, MUTANTS[name]))
    assert how, f"nothing is wrong with {name}"
    print(how.splitlines()[0][:300])

"""The kernels of GPUs as machine code: registers, spills, and what orders memory."""

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

BUILD = Path(__file__).resolve().parents[3] / "build" / "collectives" / "device" / "kernel"
NVDISASM = sorted(
    BUILD.parents[3].glob(".venv/lib/python3*/site-packages/nvidia/cu13/bin/nvdisasm")
)
SETS = sorted(path.stem for path in BUILD.glob("kernels-*.json"))
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
OPCODE = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]+)")
# Of every kernel: stores of release, loads of acquire, flags, vectors, the barrier that agrees.
NEEDED = {
    "MEMBAR.ALL.SYS": 5,
    "CCTL.IVALL": 6,
    "LD.E.64.STRONG.SYS": 20,
    "ST.E.64.STRONG.SYS": 10,
    "ATOM.E.EXCH.64.STRONG.SYS": 2,
    "LD.E.128": 5,
    "ST.E.128": 5,
    "BAR.RED.OR": 5,
}
# The waiting path keeps when it began, and no more.
MOST_LOCAL = 36

pytestmark = pytest.mark.skipif(not SETS, reason="this build has no CUDA compiler")


def test_every_kernel_fits_its_registers():
    kernels = {name: json.loads((BUILD / f"{name}.json").read_text()) for name in SETS}
    assert len(SETS) == 4
    for architecture in ARCHITECTURES:
        of_all = {k: v for found in kernels.values() for k, v in found[architecture].items()}
        assert len(of_all) == 63, architecture
        for kernel, used in of_all.items():
            assert used["registers"] <= 128, (architecture, kernel, used)
            assert used["spilled"] == 0, (architecture, kernel, used)
            assert used["stack"] <= 64 and used["shared"] <= 4096, (architecture, kernel, used)
        code = sum(
            (BUILD / f"{name}.{architecture.replace('_', '')}.cubin").stat().st_size
            for name in SETS
        )
        print(
            f"{architecture}: {len(of_all)} kernels, at most "
            f"{max(v['registers'] for v in of_all.values())} registers, "
            f"{max(v['stack'] for v in of_all.values())} B of stack, "
            f"{max(v['shared'] for v in of_all.values())} B shared, no spills, {code >> 10} KiB"
        )


def opcodes(cubin: Path) -> dict[str, Counter]:
    """By kernel: how often its machine code, with that of the functions it calls, has each."""
    text = subprocess.run([NVDISASM[0], "-c", cubin], capture_output=True, text=True, check=True)
    found, kernel = {}, ""
    for line in text.stdout.splitlines():
        if line.startswith(".text.ringwood_"):
            kernel = line[len(".text.") : -1]
        elif kernel and (opcode := OPCODE.match(line)):
            found.setdefault(kernel, Counter())[opcode[1]] += 1
    return found


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", SETS)
def test_what_orders_memory_is_in_the_machine_code(name, architecture):
    kernels = opcodes(BUILD / f"{name}.{architecture.replace('_', '')}.cubin")
    assert kernels.keys() == json.loads((BUILD / f"{name}.json").read_text())[architecture].keys()
    for kernel, count in kernels.items():
        for opcode, least in NEEDED.items():
            seen = sum(n for name, n in count.items() if name.startswith(opcode))
            assert seen >= least, (kernel, opcode, seen)
        local = sum(n for name, n in count.items() if name.startswith(("LDL", "STL")))
        assert local <= MOST_LOCAL, (kernel, local)

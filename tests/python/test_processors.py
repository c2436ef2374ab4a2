"""The choice on processors of two kinds: equal output, so that ranks on both choose alike."""

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What the choice is made of, and what that needs; of reductions it needs no kernels.
FOLDERS = "algorithms|algorithms/hierarchical|plan|schedule|verify"
FILES = r"kernels/(?:reduce|accumulate|types|wire)"
TUNER = r"choice/\w+|cost/\w+|machine/machine_model|machine/places"
# As meson.build has them: contracted, products that are added would be rounded once, or twice.
FLAGS = ["-std=c++20", "-O2", "-ffp-contract=off", "-DFMT_HEADER_ONLY", "-pthread"]
CROSS = "aarch64-linux-gnu-g++"
EMULATOR = "qemu-aarch64-static"


def sources() -> list[str]:
    text = (ROOT / "meson.build").read_text()
    pattern = rf"'(collectives/(?:(?:{FOLDERS})/\w+|{FILES})\.cc|transports/base/error\.cc)'"
    found = re.findall(pattern, text)
    tuner = (ROOT / "collectives/tuner/meson.build").read_text()
    found += [f"collectives/tuner/{one}" for one in re.findall(rf"'((?:{TUNER})\.cc)'", tuner)]
    assert len(found) > 60
    return found


def output(folder: Path, compiler: list[str], emulator: list[str]) -> str:
    """What the program prints, built by this compiler."""
    folder.mkdir()

    def compiled(source: str) -> str:
        target = str(folder / (source.replace("/", "_") + ".o"))
        # Headers only, which are the same for all processors.
        include = ["-I", str(ROOT), "-idirafter", "/usr/include"]
        subprocess.run(
            [*compiler, *FLAGS, *include, "-c", source, "-o", target], cwd=ROOT, check=True
        )
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        main, *objects = pool.map(compiled, ["tests/tuner/choice/print_choices.cc", *sources()])
    archive, program = str(folder / "choice.a"), str(folder / "print_choices")
    subprocess.run(["ar", "rcs", archive, *objects], check=True)
    subprocess.run([*compiler, "-static", "-pthread", main, archive, "-o", program], check=True)
    done = subprocess.run([*emulator, program], check=True, capture_output=True, text=True)
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_processors_of_two_kinds_choose_alike(tmp_path):
    here = output(tmp_path / "plain", ["g++"], [])
    assert len(here.splitlines()) > 400
    assert output(tmp_path / "native", ["g++", "-march=native"], []) == here
    if not (shutil.which(CROSS) and shutil.which(EMULATOR)):
        pytest.skip(f"{CROSS} and {EMULATOR} are not installed (tools/setup)")
    assert output(tmp_path / "aarch64", [CROSS], [EMULATOR]) == here

"""The wheels of tools/wheel: pip puts one into a system that has a Python, and nothing else."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from bare_root import BareRoot
from packaging.requirements import Requirement
from processes import ROOT

VERSIONS = (ROOT / "tools" / "versions").read_text()
TORCHES = re.findall(r"^wheel torch==(\d+)\.(\d+)\.", VERSIONS, re.M)
# What every Linux has that has a Python (PEP 600), and what torch brings and has loaded before.
MAY_NEED = re.compile(r"(ld-linux-x86-64|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|resolv))\.so\.\d+")
OF_TORCH = {"libc10.so", "libtorch_cpu.so", "libtorch_python.so"}
USE = """
import os, torch, torch.distributed as dist
dist.init_process_group("ringwood")
one = torch.ones(3)
dist.all_reduce(one)
print("sum", one.tolist(), "with", torch.__version__, flush=True)
dist.destroy_process_group()
"""


def test_every_torch_of_a_wheel_is_named_to_readers():
    oldest, newest = (".".join(one) for one in (TORCHES[0], TORCHES[-1]))
    for name in ("README.md", "CHANGELOG.md", "torch-bridge/README.md"):
        assert f"torch {oldest} to {newest}" in (ROOT / name).read_text(), name


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """What the documented line makes; what it downloads and compiles stays for the next time."""
    to = tmp_path_factory.mktemp("dist")
    told = subprocess.run(
        [ROOT / "tools" / "wheel", "--python", sys.executable, to],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert told.returncode == 0, told.stdout
    assert list(to.glob("*.tar.gz")), "the archive of sources"
    (made,) = to.glob("*.whl")
    return made


def dynamic(file: Path) -> str:
    return subprocess.check_output(["readelf", "-d", file], text=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_wheel_carries_what_it_needs(wheel, tmp_path):
    assert "manylinux" in wheel.name
    zipfile.ZipFile(wheel).extractall(tmp_path)
    bridges = sorted(file.name.split(".")[0] for file in tmp_path.rglob("_C_*.so"))
    assert bridges == sorted(f"_C_{major}_{minor}" for major, minor in TORCHES)
    programs = [*tmp_path.rglob("*.so*"), *tmp_path.glob("*.data/scripts/ringwood")]
    assert len(programs) == len(TORCHES) + 1
    share = next(tmp_path.glob("*.data/data/share"))
    for place in ("bash-completion/completions/ringwood", "man/man1/ringwood.1"):
        assert (share / place).stat().st_size > 0
    notices = {file.stem for file in tmp_path.glob("ringwood/notices/*.txt")}
    assert {"fmt", "spdlog", "ssl", "uplot"} <= notices
    for file in programs:
        told = dynamic(file)
        assert "RPATH" not in told and "RUNPATH" not in told, file
        needed = set(re.findall(r"NEEDED.*\[(.*)\]", told)) - OF_TORCH
        assert [name for name in needed if not MAY_NEED.fullmatch(name)] == [], file
        for folder in (ROOT, sys.base_prefix):
            assert f"{folder}/".encode() not in file.read_bytes(), file


def packages_of(name: str) -> set[str]:
    """This package and what it requires, of those that are installed here."""
    found, left = set(), [name]
    while left:
        package = left.pop()
        if package in found:
            continue
        try:
            required = importlib.metadata.requires(package) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        found.add(package)
        wanted = [Requirement(line) for line in required]
        left += [one.name for one in wanted if one.marker is None or one.marker.evaluate()]
    return found


def copy_of_torch(to: Path) -> None:
    """The torch of this environment, which a user has before he installs the wheel."""
    for package in packages_of("torch"):
        for file in importlib.metadata.files(package) or []:
            if ".." in file.parts:
                continue
            (to / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file.locate(), to / file)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another root")
@pytest.mark.skipif(not shutil.which("debootstrap"), reason="there is no debootstrap")
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="this Debian has another Python")
def test_one_line_of_pip_in_a_bare_debian(wheel, tmp_path):
    root = BareRoot(tmp_path / "root", "bookworm", "python3-venv")
    shutil.copy(wheel, root.folder)
    (root.folder / "use.py").write_text(USE)
    root.shell(f"python3 -m venv /env && /env/bin/pip install --no-index /{wheel.name}", "/")
    assert "ringwood" in root.shell("/env/bin/ringwood --version", "/")
    root.shell(f"/env/bin/pip install --no-index --target /elsewhere /{wheel.name}", "/")
    assert "ringwood" in root.shell("PYTHONPATH=/elsewhere python3 -m ringwood --version", "/")
    told = root.shell("/env/bin/ringwood perf all_reduce --ranks 2 -b 1M -e 1M --json", "/")
    assert '"algorithm"' in told
    copy_of_torch(root.folder / "env" / "lib" / "python3.11" / "site-packages")
    told = root.shell("/env/bin/python -m torch.distributed.run --nproc-per-node 2 use.py", "/")
    assert told.count("sum [2.0, 2.0, 2.0]") == 2, told

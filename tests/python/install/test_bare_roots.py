"""The README's lines for C++, in a Debian in which nothing is prepared: as they stand, by root."""

import os
import re
import shutil

import pytest
from bare_root import BareRoot, copy_of_the_sources
from processes import ROOT

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def blocks_for_cpp() -> list[str]:
    """What a user types: to build, to use."""
    (section,) = re.findall(
        r"^## From C\+\+\n(.*?)^## ", (ROOT / "README.md").read_text(), re.M | re.S
    )
    return [lines for language, lines in BLOCK.findall(section) if not language]


def test_the_blocks_are_found():
    build, use = blocks_for_cpp()
    assert "apt-get install" in build and "meson install" in build
    assert "pkg-config" in use


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another root")
@pytest.mark.skipif(not shutil.which("debootstrap"), reason="there is no debootstrap")
@pytest.mark.parametrize("release", ["bookworm", "trixie"])
def test_the_lines_for_cpp(tmp_path, release):
    root = BareRoot(tmp_path / release, release)
    copy_of_the_sources(root.folder / "checkout")
    shutil.copy(ROOT / "collectives" / "examples" / "hello.cc", root.folder)
    build, use = blocks_for_cpp()
    root.shell(build.replace("apt-get install", "apt-get -y install"), "/checkout")
    told = root.shell(use, "/")
    assert sorted(told.splitlines()[-2:]) == [f"rank {rank} of 2: 2 and 10" for rank in range(2)]

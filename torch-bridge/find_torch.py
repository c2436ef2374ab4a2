"""For meson.build: the torch packages to build for, a line each: folder|version|minor version.

The arguments are their folders; without any it is the torch of this Python. Status 1 if one is
missing. Torch is located without being imported, which would cost seconds and load the plug-ins
that are installed.
"""

import importlib.util
import os
import re
import sys


def folder_of_this_python() -> str:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        sys.exit(f"there is none in {sys.executable}, install it there")
    return os.path.dirname(spec.origin)


def version_of(folder: str) -> str:
    try:
        with open(os.path.join(folder, "version.py")) as file:
            return re.search(r"__version__ = '([^']+)'", file.read())[1]
    except OSError as error:
        sys.exit(f"{folder} is not the folder of a torch package ({error.strerror})")


for folder in sys.argv[1:] or [folder_of_this_python()]:
    version = version_of(folder)
    print(folder, version, "_".join(version.split(".")[:2]), sep="|")

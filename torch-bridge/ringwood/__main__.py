"""`python -m ringwood` is the `ringwood` command of this installation, with or without torch."""

from __future__ import annotations

import os
import signal
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path


def command() -> Path | None:
    """The program; None if it is not installed."""
    found = []
    try:
        package = distribution("ringwood")
        files = package.files or []
        found = [Path(str(f.locate())) for f in files if f.name == "ringwood"]
    except PackageNotFoundError:
        pass
    # `pip install --target FOLDER` moves it without noting that down.
    found.append(Path(__file__).resolve().parents[1] / "bin" / "ringwood")
    # An editable installation has no programs: this one is where it was built.
    generated = find_spec("ringwood._built_for")
    if generated and generated.origin:
        found.append(Path(generated.origin).parents[1] / "tools" / "ringwood")
    return next((f.resolve() for f in found if os.access(f, os.X_OK) and f.is_file()), None)


def main() -> None:
    program = command()
    if program is None:
        sys.exit("the program `ringwood` is not in this installation of the package ringwood")
    # Python ignores these, and what is ignored stays so.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execv(program, ["ringwood", *sys.argv[1:]])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes of the library that is built the one that is installed.

    tools/install/public_library.py BUILT OUTPUT --compiler C++... --objcopy X --ar X

The library is compiled with Asio and fmt in it, and with templates of the standard library. A
program that is linked with it may use another version of them, and a shared library would export
them. So all objects become one, in which only what bears our own name is left for others to see.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

# Functions, constant functions, tables and types of the namespace ringwood, its guards, and C's.
OURS = ("_ZN8ringwood*", "_ZNK8ringwood*", "_ZT?N8ringwood*", "_ZGVN8ringwood*", "ringwood_*")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("built", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--compiler", nargs="+", required=True)
    parser.add_argument("--objcopy", required=True)
    parser.add_argument("--ar", required=True)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.output.parent) as folder:
        whole = Path(folder) / "ringwood.o"
        # Without groups of sections: the final link would else take a user's copy of a function in
        # place of ours, to which only our own symbol leads.
        link = ["-r", "-nostdlib", "-Wl,--force-group-allocation", "-Wl,--whole-archive"]
        subprocess.run([*asked.compiler, *link, asked.built, "-o", whole], check=True)
        keep = [f"--keep-global-symbol={pattern}" for pattern in OURS]
        subprocess.run([asked.objcopy, "--wildcard", *keep, whole], check=True)
        asked.output.unlink(missing_ok=True)
        subprocess.run([asked.ar, "rcsD", asked.output, whole], check=True)


if __name__ == "__main__":
    main()

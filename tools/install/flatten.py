#!/usr/bin/env python3
"""Writes a public header as it is installed: with <ringwood/x.h> for each of ours that it includes.

    tools/install/flatten.py HEADER OUTPUT PUBLIC...    paths from the repository's root

One that includes a header which is not public, or two of one name, are errors: what a user's
program would not compile with, or what a user should not have to read.
"""

import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def flat(text: str, public: list[str]) -> str:
    names = [Path(header).name for header in public]
    if len(set(names)) != len(names):
        raise ValueError("two public headers have one name")
    for header in INCLUDE.findall(text):
        if header not in public:
            raise ValueError(f"includes {header}, which is not public (tools/install/meson.build)")
    return INCLUDE.sub(lambda found: f"#include <ringwood/{Path(found[1]).name}>", text)


def main(header: str, output: str, *public: str) -> None:
    try:
        Path(output).write_text(flat(Path(header).read_text(), list(public)))
    except ValueError as error:
        sys.exit(f"{header}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])

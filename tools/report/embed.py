"""Writes text files into a C++ source, as string constants of the report library.

embed.py OUTPUT.cc NAME=FILE...
"""

import sys
from pathlib import Path

DELIMITER = "asset"
MOST = 15000  # characters of one literal; the compiler joins neighbours


def literal(text: str) -> str:
    """The text as neighbouring raw string literals."""
    if f'){DELIMITER}"' in text:
        raise ValueError(f'a file contains the end of a literal, ){DELIMITER}"')
    pieces = [text[at : at + MOST] for at in range(0, len(text), MOST)] or [""]
    return "\n".join(f'R"{DELIMITER}({piece}){DELIMITER}"' for piece in pieces)


def main(output: str, *assets: str) -> None:
    parts = ['#include "tools/report/assets.h"\n\nnamespace ringwood::tools {\n']
    for asset in assets:
        name, _, file = asset.partition("=")
        text = Path(file).read_text(encoding="utf-8")
        parts.append(f"const char* const {name} =\n{literal(text)};\n")
    parts.append("}  // namespace ringwood::tools\n")
    Path(output).write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

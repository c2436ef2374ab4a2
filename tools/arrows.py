"""The house rules on folders: code includes only what stands below it, and no folder is crowded.
`tools/lint` runs it.

    tools/arrows.py FILE...    every file of the repository

LEVELS is the house from its ground up. A row is a folder, with the folders in it that have no row
of their own, or a file without its ending; it may include itself and the rows above it here. A row
that ends with a star is each of the folders there that have no row, apart from the others. A file
that no row names has no place.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

MOST_FILES = 30  # in a folder, folders not counted
LEVELS = (
    "transports/base",
    "transports/bootstrap",
    "transports/cache_line",
    "transports/channels",
    "transports/link",
    "transports/link_parts",
    "transports/eager_channel",
    "transports/device_copies",
    "transports/group",
    "transports/pairs",
    "transports/transport",
    "transports/memory",
    "transports/control",
    "transports/*",  # a transport each, which sees no other
    "transports/verbs/library",
    "transports/verbs/rail",
    "transports/verbs/fallback",
    "transports/verbs/path",
    "transports/verbs/ring",
    "transports/verbs",
    "transports/mesh",
    "transports/transports",
    "collectives/schedule",
    "collectives/algorithms",
    "collectives/verify",
    "collectives/call",
    "collectives/kernels",
    "collectives/plan",
    "collectives/checker",
    "collectives/tuner/busiest",
    "collectives/tuner/candidate",
    "collectives/tuner/tuner_plugin",
    "collectives/tuner/tuner",
    "collectives/tuner/machine",
    "collectives/tuner/tuning",
    "collectives/tuner/cost",
    "collectives/tuner/choice",
    "collectives/tuner/watch",
    "collectives/tuner/plugin",
    "collectives/tuner",
    "collectives/recorder",
    "collectives/operations",
    "collectives/epochs",
    "collectives/planner",
    "collectives/executors",
    "collectives/messages",
    "collectives/status",
    "collectives/runtime",
    "collectives/calls",
    "collectives/version",
    "collectives/communicator",
    "collectives/group_parts",
    "collectives/examples",
    "torch-bridge",
    "tools",
    "tests/support",
    "tests",
    "bench",
)
# A folder with one door: what runs includes nothing else of it. What measures and explains it may.
DOORS = {
    "collectives/tuner": "collectives/tuner/tuner.h",
    **{f"transports/{name}": f"transports/{name}/{name}.h" for name in ("shm", "tcp", "verbs")},
}
GUESTS = ("tools/", "tests/", "bench/")
OURS = {row.split("/")[0] for row in LEVELS}
INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.MULTILINE)


def place_of(file: str) -> tuple[int, str] | None:
    """The row of the longest path that the file is or is in, and that path."""
    places = {row: number for number, row in enumerate(LEVELS)}
    at = file.rsplit(".", 1)[0] if "." in Path(file).name else file
    while at:
        star = at.rpartition("/")[0] + "/*"
        if at in places:
            return places[at], at
        if star in places and at != file.rsplit(".", 1)[0]:
            return places[star], at
        at = at.rpartition("/")[0]
    return None


def arrows(file: str, text: str) -> Iterable[str]:
    """The file's includes that point upward, and what has no place, in words."""
    mine = place_of(file)
    if mine is None:
        yield f"{file} is in none of the rows of tools/arrows.py"
        return
    for target in INCLUDE.findall(text):
        if target.split("/")[0] not in OURS:  # a library, or a file of its own folder
            continue
        place = place_of(target)
        if place is None:
            yield f"{file} includes {target}, which is in none of the rows of tools/arrows.py"
        elif place[0] > mine[0]:
            yield f"{file} includes {target}, which stands above it (tools/arrows.py)"
        elif place[0] == mine[0] and place != mine:
            yield f"{file} includes {target}, which stands beside it (tools/arrows.py)"
        yield from closed_doors(file, target)


def closed_doors(file: str, target: str) -> Iterable[str]:
    for folder, door in DOORS.items():
        inside, outside = (
            target.startswith(f"{folder}/"),
            not file.startswith((f"{folder}/", *GUESTS)),
        )
        if inside and outside and target != door:
            yield f"{file} includes {target}, which is behind {door} (tools/arrows.py)"


def crowds(files: Iterable[str]) -> Iterable[str]:
    for folder, count in sorted(Counter(str(Path(f).parent) for f in files).items()):
        if count > MOST_FILES:
            yield f"{folder} has {count} files, more than {MOST_FILES}"


def main(files: list[str]) -> int:
    found = list(crowds(files))
    for file in files:
        if file.endswith((".h", ".cc")):
            found += arrows(file, Path(file).read_text())
    print("\n".join(found), end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

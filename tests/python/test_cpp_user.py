"""What a C++ user does: installs, compiles a program outside the tree, and runs it on two ranks."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
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


@pytest.fixture(scope="module")
def flags(installed) -> list[str]:
    (description,) = installed.rglob("ringwood.pc")
    found = {**os.environ, "PKG_CONFIG_PATH": str(description.parent)}
    return checked("pkg-config", "--cflags", "--libs", "ringwood", env=found).split()


def ours(header: Path, seen: dict[str, int]) -> dict[str, int]:
    """The header and what it includes of the same folder, with their lines."""
    text = header.read_text()
    seen[header.name] = len(text.splitlines())
    for name in re.findall(r"#include <ringwood/([^>]+)>", text):
        if name not in seen:
            ours(header.parent / name, seen)
    return seen


def test_the_example_runs_on_two_ranks(installed, flags, tmp_path):
    source = ROOT / "collectives" / "examples" / "hello.cc"
    checked("c++", "-Wall", "-Wextra", source, "-o", "hello", *flags, cwd=tmp_path)
    port = str(held_port())
    ranks = [
        subprocess.Popen(
            [tmp_path / "hello"],
            env=environment(RANK=rank, WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port),
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]
    told = [rank.communicate(timeout=PATIENCE_S)[0] for rank in ranks]
    assert told == [f"rank {rank} of 2: 2 and 10\n" for rank in range(2)]


def test_the_example_runs_under_torchrun(installed, flags, tmp_path):
    """Its agent serves a store of its own on MASTER_PORT."""
    pytest.importorskip("torch")
    source = ROOT / "collectives" / "examples" / "hello.cc"
    checked("c++", source, "-o", "hello", *flags, cwd=tmp_path)
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
    for name in ("communicator.h", "libringwood_core.a", "ringwood.pc"):
        assert files[name] == "devel"
    wanted = tags.removeprefix("--tags=").split(",")
    assert "devel" not in wanted
    assert files["ringwood"] in wanted

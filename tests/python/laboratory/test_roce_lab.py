"""RDMA without a device: virtual hosts with Soft-RoCE run this build's programs (tests/roce-lab).

One boot for each group of tests; what a step in it did is read from what it left behind.
"""

import functools
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import digits
import pytest
from ladder_sums import assert_losses_add_up
from processes import EXAMPLES, ROOT
from ringwood_command import BINARY

LAB = ROOT / "tests" / "roce-lab" / "lab"
PROGRAMS = BINARY.parent.parent / "tests"
# Emulation is 20 to 50 times slower than the machine, which others may be using too.
BOOT_S = 420
# 7 s on a quiet machine, 20 on a busy one. Where it takes longer, no bound in seconds is kept.
FIRST_BOOT_S, SLOW_BOOT_S = 120, 45
# `import torch` alone takes two minutes there.
TRAINING_S = 1200

pytestmark = [pytest.mark.lab, pytest.mark.timeout(2 * BOOT_S)]


@functools.cache
def why_no_host() -> str:
    """Why no virtual host can be had here; empty where one has come up."""
    # Without qemu, without the network that the kernel comes from, where nothing can be emulated.
    for words in (["check"], ["setup"], ["run", "--timeout", FIRST_BOOT_S, "--", "true"]):
        began = time.monotonic()
        done = subprocess.run([LAB, *map(str, words)], capture_output=True, text=True)
        if done.returncode != 0:
            return f"lab {words[0]}: {done.stderr.strip()[-500:] or done.returncode}"
    took = time.monotonic() - began
    return f"a virtual host takes {took:.0f} s to come up" if took > SLOW_BOOT_S else ""


def boot(out: Path, *command: object, env: dict[str, object] | None = None, **settings: int):
    if why := why_no_host():
        pytest.skip(why)
    options = ["--out", out]
    for name, value in ({"timeout": BOOT_S} | settings).items():
        options += [f"--{name}", value]
    for name, value in (env or {}).items():
        options += ["--env", f"{name}={value}"]
    words = [str(word) for word in (LAB, "run", *options, "--", *command)]
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("RINGWOOD_")}
    return subprocess.run(words, capture_output=True, text=True, env=inherited)


@dataclass
class Step:
    """What both hosts left of one step."""

    folder: Path
    name: str

    def text(self, rank: int, kind: str) -> str:
        return (self.folder / f"{self.name}.{rank}.{kind}").read_text()

    def time(self, rank: int, kind: str) -> float:
        return (self.folder / f"{self.name}.{rank}.{kind}").stat().st_mtime

    def codes(self) -> list[int]:
        return [int(self.text(rank, "rc")) for rank in (0, 1)]

    def rows(self) -> list[dict]:
        assert self.codes() == [0, 0], self.text(0, "err") + self.text(1, "err")
        return json.loads(self.text(0, "out"))["rows"]

    def log(self, level: str, rank: int = 0) -> list[str]:
        found = re.findall(rf"RINGWOOD {level} verbs: (.*)", self.text(rank, "err"))
        assert found or level != "WARN", self.text(rank, "err")
        return found

    def transports(self) -> set[str]:
        rows = self.rows()
        assert rows
        assert all(row["wrong"] == 0 for row in rows), rows
        return {row["transports"] for row in rows}


STEPS = (
    "collectives",
    "large",
    "pace",
    "two-rails-one-pulled",
    "one-rail-pulled",
    "two-rails-one-back",
    "one-rail-back",
    "stopped",
    "stopped-over-tcp",
    "loss",
    "crash",
    "port-down",
    "low-memlock",
    "no-library",
    "one-without",
    "host-crash",
)


@pytest.fixture(scope="module")
def two_hosts(tmp_path_factory):
    out = tmp_path_factory.mktemp("two-hosts")
    run = boot(out, LAB.parent / "hosts.sh", BINARY, *STEPS, hosts=2, rails=2, lost=1)
    assert run.returncode == 0, run.stdout + run.stderr
    return lambda name: Step(out, name)


PROGRAMS_OF_ONE_HOST = """
for program in link collective verbs cuda; do
  "$1/${program}_tests" --gtest_filter="$2" >"$LAB_OUT/$program.out" 2>&1
done
"""
# Small rings, several queue pairs and zero-copy messages take other paths only with large messages.
FILTER = (
    "*/verbs:*/verbs_2:*/verbs_3:*Carry*/verbs_*:*Touch*/verbs_zero_copy:*Pin*/verbs_zero_copy:"
    "*EveryAlgorithm/verbs_zero_copy_*:*EveryAlgorithm/verbs_remapped_*:*VerbsFailures*"
)


@pytest.fixture(scope="module")
def one_host(tmp_path_factory):
    out = tmp_path_factory.mktemp("one-host")
    run = boot(out, "sh", "-c", PROGRAMS_OF_ONE_HOST, "sh", PROGRAMS, FILTER)
    assert run.returncode == 0, run.stdout + run.stderr
    return out


# The contract of links, every algorithm of every collective, devices that fail without a last word,
# and calls on memory of (doubled) GPUs, over queue pairs of one device.
@pytest.mark.parametrize(
    ("program", "least"), [("link", 17), ("collective", 48), ("verbs", 4), ("cuda", 18)]
)
def test_a_program_passes_on_a_device(one_host, program, least):
    listing = [PROGRAMS / f"{program}_tests", "--gtest_list_tests", f"--gtest_filter={FILTER}"]
    listed = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
    tests = sum(line.startswith("  ") for line in listed.splitlines())
    assert tests >= least, listed
    said = (one_host / f"{program}.out").read_text()
    assert f"[  PASSED  ] {tests} tests." in said, said
    assert "SKIPPED" not in said


def test_every_collective_is_exact_between_two_hosts(two_hosts):
    step = two_hosts("collectives")
    assert step.transports() == {"verbs"}
    assert len({row["collective"] for row in step.rows()}) == 10
    told = "\n".join(step.log("INFO"))
    assert "GID 10.77.1.1 [1] to rxe1/1 10.77.1.2, path MTU 1024" in told


def test_a_pulled_rail_is_dropped_and_the_result_is_exact(two_hosts):
    step = two_hosts("two-rails-one-pulled")
    assert step.transports() == {"verbs"}
    assert "port error; what was not acknowledged goes over the 1 left" in step.log("WARN")[0]
    assert "the peer closed it" in step.log("WARN", 1)[0]


def test_the_last_rail_pulled_is_replaced_by_tcp(two_hosts):
    step = two_hosts("one-rail-pulled")
    assert step.transports() == {"verbs+tcp"}
    assert "port error; what was not acknowledged goes over TCP" in step.log("WARN")[0]


def check_return(step: Step, host: int, path: str, meanwhile: str) -> None:
    """The rail of `host` went down and came back while data was on its way."""
    assert step.transports() == {"verbs+tcp" if meanwhile == "over TCP" else "verbs"}
    told = step.log("WARN", host)
    assert f"path {path} to rank {1 - host} dropped" in told[0]
    assert meanwhile in told[0]
    for rank in (0, 1):
        again = f"path {path} to rank {1 - rank} is used again"
        assert any(again in line for line in step.log("WARN", rank)), step.text(rank, "err")
    # It carries data again: what it had sent a moment after its return, and in the end.
    assert int(step.text(host, "sent-after")) > int(step.text(host, "sent-before")) + 1000


@pytest.mark.parametrize(
    ("name", "host", "path", "meanwhile"),
    [
        ("two-rails-one-back", 1, "2 of 2", "over the 1 left"),
        ("one-rail-back", 0, "1 of 1", "over TCP"),
    ],
)
def test_a_rail_that_returns_is_used_again(two_hosts, name, host, path, meanwhile):
    step = two_hosts(name)
    check_return(step, host, path, meanwhile)
    assert "event: port error" in step.log("WARN", host)[0]


# What a queue pair or its fallback connection may not mistake for a host that is gone.
@pytest.mark.parametrize(
    ("name", "transports"), [("stopped", "verbs"), ("stopped-over-tcp", "verbs+tcp")]
)
def test_a_stopped_rank_is_waited_for(two_hosts, name, transports):
    step = two_hosts(name)
    assert step.transports() == {transports}
    assert re.search(r"rank 1 \(roce-h1, pid \d+\) has been silent .*stopped", step.text(0, "err"))


@pytest.mark.slow
def test_late_ranks_are_waited_for_in_every_call(tmp_path):
    program = PROGRAMS / "collective_tests"
    variables = {"RINGWOOD_TEST_HEARTBEAT_MS": 100, "RINGWOOD_TEST_LATE_MS": 6000}
    run = boot(tmp_path, program, "--gtest_filter=*Lateness*/verbs_*", env=variables)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "SKIPPED" not in run.stdout, run.stdout


@pytest.mark.slow
def test_rails_that_return_again_and_again_leave_nothing_behind(tmp_path):
    steps = ("pace", "flapping", "link-set-down")
    run = boot(tmp_path, LAB.parent / "hosts.sh", BINARY, *steps, hosts=2, rails=2)
    assert run.returncode == 0, run.stdout + run.stderr
    flapping = Step(tmp_path, "flapping")
    check_return(flapping, 1, "2 of 2", "over the 1 left")
    # Queue pairs, descriptors: while the last path was just back, and while the first carried.
    assert flapping.text(1, "held-after") == flapping.text(1, "held-before")
    check_return(Step(tmp_path, "link-set-down"), 0, "1 of 1", "over TCP")


@pytest.mark.slow
def test_a_rail_that_is_lost_and_returns_is_reported_and_measured(tmp_path):
    steps = ("pace", "rail-reported")
    run = boot(tmp_path, LAB.parent / "hosts.sh", BINARY, *steps, hosts=2, rails=2, mtu=4200)
    assert run.returncode == 0, run.stdout + run.stderr
    step = Step(tmp_path, "rail-reported")
    assert step.codes() == [0, 0]
    text = step.text(0, "err")
    reports = re.findall(r"rank [01] has ([\d.]+) MB/s to rank [01] instead of ([\d.]+)", text)
    assert any(float(left) < float(before) for left, before in reports), text
    assert "hosts, measured in" in text[text.rindex("is used again") :], text
    assert re.search(r"2 hosts, measured in .*, 2 rails", text), text


def test_loss_changes_no_result_and_shows_in_the_counters(two_hosts):
    step = two_hosts("loss")
    assert step.transports() == {"verbs"}

    (port,) = json.loads(step.text(0, "out"))["fabric"]
    assert port.startswith("rxe1/1: ")
    assert re.search(r"(out_of_seq_request|rcvd_seq_err|completer_retry_err) \+\d", port)


def test_an_8_mib_result_is_exact(two_hosts):
    step = two_hosts("large")
    assert step.transports() == {"verbs"}
    assert [row["bytes"] for row in step.rows()] == [8388609]


def test_a_killed_rank_is_named_to_the_survivor(two_hosts):
    step = two_hosts("crash")
    assert step.codes() == [1, 137]
    assert re.search(r"ringwood: rank 0 .*rank 1 \(roce-h1, pid \d+\) died", step.text(0, "err"))


def test_a_host_that_vanishes_is_named_after_twelve_heartbeats(two_hosts):
    step = two_hosts("host-crash")
    assert int(step.text(0, "rc")) == 1
    assert re.search(
        r"ringwood: rank 0 .*rank 1 \(roce-h1, pid \d+\) is lost: its host has acknowledged",
        step.text(0, "err"),
    )
    # Twelve heartbeats of 0.5 s, of which the first may be under way. Times of this machine:
    # the hosts' clocks differ. The last thing that a survivor writes is the error.
    assert step.time(0, "err") - step.time(1, "killed") > 5


@pytest.mark.parametrize(
    ("name", "cause", "remedy"),
    [
        ("port-down", "rxe1/1: the port is down", "set its interface up"),
        ("low-memlock", "the memlock limit is 64 KiB", "ulimit -l unlimited"),
    ],
)
def test_verbs_that_cannot_be_used_are_explained(two_hosts, name, cause, remedy):
    step = two_hosts(name)
    assert step.transports() == {"tcp"}
    (line,) = step.log("WARN")
    assert cause in line
    assert remedy in line


def test_a_missing_library_is_explained(two_hosts):
    step = two_hosts("no-library")
    assert step.transports() == {"tcp"}
    (line,) = step.log("WARN")
    assert "libibverbs.so.1" in line
    assert "install rdma-core" in line


def test_a_peer_without_verbs_is_reached_over_tcp(two_hosts):
    step = two_hosts("one-without")
    assert step.transports() == {"tcp"}
    assert step.log("WARN") == ["rank 1 is not reached: RINGWOOD_VERBS_DISABLE=1"]


@pytest.mark.parametrize("hosts", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_every_collective_of_up_to_8_mib_is_exact(tmp_path, hosts):
    steps = ("collectives", "all-large")
    run = boot(tmp_path, LAB.parent / "hosts.sh", BINARY, *steps, hosts=hosts)
    assert run.returncode == 0, run.stdout + run.stderr
    for name in steps:
        assert Step(tmp_path, name).transports() == {"verbs"}


def test_a_ladder_over_verbs_adds_up(tmp_path):
    run = boot(tmp_path, LAB.parent / "hosts.sh", BINARY, "ladder", hosts=2, rails=2)
    assert run.returncode == 0, run.stdout + run.stderr
    step = Step(tmp_path, "ladder")
    assert step.codes() == [0, 0], step.text(0, "err") + step.text(1, "err")
    found = json.loads(step.text(0, "out"))
    rungs = {rung["rung"]: rung for rung in found["rungs"]}
    assert "link over verbs" in rungs["link"]["what"]
    # The link does not go over sockets, and over the raw verbs if perftest is there.
    assert rungs["raw socket"]["beside"] and not rungs["raw verbs"]["beside"]
    raw = rungs["raw verbs"]
    if raw["why_not"]:
        assert "install perftest" in raw["why_not"], raw
    else:
        assert min(raw["time_us"]) > 0, raw
    for name in ("raw socket", "link", "collective"):
        assert min(rungs[name]["time_us"]) > 0, rungs[name]
    assert_losses_add_up(found, step.text(0, "err"))
    bases = {one["base"] for one in found["losses"]}
    assert bases == {"link" if raw["why_not"] else "raw verbs"}


# The example itself compares the weights of all ranks, bit by bit, and fails if they differ.
@pytest.mark.slow
@pytest.mark.timeout(TRAINING_S + 60)
def test_training_on_two_hosts_goes_over_verbs(tmp_path, data_folder):
    few = tmp_path / "data" / "few"
    few.mkdir(parents=True)
    for part, count in (("train", 64), ("test", 32)):
        for name in digits.FILES[part]:
            digits.write_idx(few / name, digits.read_idx(data_folder / "digits" / name)[:count])
    out = tmp_path / "out"
    variables = {
        "MASTER_PORT": 29400,
        "LOCAL_RANK": 0,
        "LOCAL_WORLD_SIZE": 1,
        "EPOCHS": 1,
        "BATCH_SIZE": 16,
        "DATASETS_PATH": few.parent,
        "DATASETS": few.name,
        "WORKSPACE": "/run/lab/out",
        "RINGWOOD_LOG": "info",
        "RINGWOOD_CALIBRATION": "off",
    }
    command = (sys.executable, EXAMPLES / "train.py", "--timeout", TRAINING_S)
    run = boot(out, *command, env=variables, hosts=2, mtu=4200, timeout=TRAINING_S)
    assert run.returncode == 0, run.stdout + run.stderr

    for rank in (0, 1):
        assert f"rank {rank} of 2: verbs to {1 - rank}" in run.stderr
    result = json.loads((out / "result.json").read_text())
    assert result["ranks"] == 2
    assert 0 <= result["accuracy"] <= 1
    assert re.fullmatch(r"[0-9a-f]{64}", result["weights"])

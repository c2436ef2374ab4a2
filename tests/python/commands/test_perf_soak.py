"""`ringwood perf -N`: runs until it is stopped, with a line for each interval."""

import contextlib
import csv
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from corruption import corrupting_library
from networks import command
from processes import PATIENCE_S
from ringwood_command import BINARY, environment, run
from shapes import Shape, cluster

SHORT = ["-w", "1", "--interval", "0.05"]


@contextlib.contextmanager
def soak(*words: str, **more: str) -> Iterator[subprocess.Popen]:
    """Of two ranks, until it is stopped, with its pipes."""
    with subprocess.Popen(
        [BINARY, "perf", *SHORT, *words, "-N", "0"],  # of two values the last one counts
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**more),
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def lines_until(running: subprocess.Popen, count: int) -> list[list[str]]:
    """The next lines of the table, in words."""
    found: list[list[str]] = []
    while len(found) < count:
        line = running.stdout.readline()
        assert line, running.stderr.read()
        if not line.startswith("#"):
            found.append(line.split())
    return found


def children(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def retransmitted(namespace: str) -> int:
    words = ["ip", "netns", "exec", namespace, "cat", "/proc/net/snmp"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    names, values = (line.split() for line in text.splitlines() if line.startswith("Tcp:"))
    return int(values[names.index("RetransSegs")])


def totals_of(text: str) -> list[list[str]]:
    return [line.split() for line in re.findall(r"(?m)^# +\d+:\d\d:\d\d (.*)$", text)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_lines_take_turns_until_it_is_stopped(number, tmp_path):
    rows, totals = tmp_path / "soak.csv", tmp_path / "soak.json"
    files = ["--csv", str(rows), "--json", str(totals)]
    with soak("all_reduce", "broadcast", "--sizes", "1K,64K", *files) as running:
        lines = lines_until(running, 6)
        running.send_signal(number)
        rest, errors = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, errors) == (0, "")
    calls = [("all_reduce", "1024"), ("all_reduce", "65536")]
    calls += [("broadcast", "1024"), ("broadcast", "65536")]
    assert [(line[1], line[2]) for line in lines] == [*calls, *calls[:2]]
    assert re.search(r"^# Stopped after 0:00:\d\d: \d+ intervals, \d+ operations$", rest, re.M)
    assert [(line[0], line[1]) for line in totals_of(rest)] == calls
    assert "# Out of bounds values : 0 OK" in rest

    with rows.open() as file:
        kept = list(csv.DictReader(file))
    assert len(kept) >= 6
    found = json.loads(totals.read_text())
    assert (found["stopped"], found["intervals"]) == (True, len(kept))
    for total in found["totals"]:
        mine = [
            row
            for row in kept
            if (row["collective"], row["bytes"]) == (total["collective"], str(total["bytes"]))
        ]
        assert total["intervals"] == len(mine)
        assert total["operations"] == sum(int(row["operations"]) for row in mine)
        longest = max(mine, key=lambda row: float(row["time_us_worst"]))
        worst = float(longest["time_us_worst"])
        assert total["time_us_worst"] == pytest.approx(worst, abs=1e-3)
        assert total["worst_at_s"] == pytest.approx(float(longest["at_s"]), abs=1e-3)
        assert float(mine[-1]["worst_so_far_us"]) == pytest.approx(worst, abs=1e-3)
        assert 0 < total["time_us_p50"] <= total["time_us_p99"] <= total["time_us_worst"]
        assert total["wrong"] == 0


def test_a_number_of_tables_ends_by_itself():
    done = run("perf", "barrier", "all_gather", "--sizes", "1K,4K", "-N", "2", *SHORT)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    assert [line[2] for line in lines] == ["0", "1024", "4096"] * 2
    assert "# Ended after 0:00:" in done.stdout


def test_wrong_results_are_counted_and_the_rest_goes_on(tmp_path):
    words = ["perf", "all_reduce", "--transport", "tcp", "--sizes", "1M", "-N", "3", *SHORT]
    done = run(*words, LD_PRELOAD=corrupting_library(tmp_path, only_one=False))
    assert done.returncode == 1
    lines = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    assert len(lines) == 3
    assert all(int(line[11]) > 0 for line in lines), done.stdout
    assert re.search(r"^# Out of bounds values : \d+ FAILED$", done.stdout, re.M)


def test_a_demand_that_is_not_met_is_told_at_the_end():
    done = run("perf", "all_reduce", "--sizes", "64K", "-N", "2", "--min-busbw", "1e5", *SHORT)
    assert done.returncode == 1
    assert re.search(r"^ringwood: all_reduce of 65536 B .* --min-busbw", done.stderr, re.M)


def test_what_was_measured_is_told_where_a_rank_dies(tmp_path):
    totals = tmp_path / "soak.json"
    with soak("all_reduce", "--sizes", "1K", "--json", str(totals)) as running:
        lines_until(running, 2)
        os.kill(children(running.pid)[1], signal.SIGKILL)
        rest, errors = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 1
    assert "rank 1" in errors and "killed by signal 9" in errors
    assert "# Stopped after" in rest
    found = json.loads(totals.read_text())
    assert found["totals"][0]["intervals"] >= 2
    assert "rank 1" in found["failed"][0]


def measuring(running: subprocess.Popen) -> list[int]:
    """The ranks, when they are at it: they spin, and setting up takes much less of their time."""
    running.stdout.readline()
    ranks = []
    while not (ranks := children(running.pid)) or min(map(seconds_used, ranks)) < 1:
        assert running.poll() is None, running.stderr.read()
        time.sleep(0.05)
    return ranks


def seconds_used(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_an_interval_that_was_cut_off_is_not_held_against_the_demand():
    endless = ["--interval", "1000", "--min-busbw", "1e6"]
    with soak("all_reduce", "--sizes", "64K", *endless) as running:
        measuring(running)
        running.send_signal(signal.SIGTERM)
        rest, errors = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, errors) == (0, "")
    assert re.search(r"^# Stopped after 0:\d\d:\d\d: 1 interval, \d+ operations$", rest, re.M)


def test_the_interval_in_which_a_rank_dies_is_told():
    with soak("all_reduce", "--sizes", "64K", "--interval", "1000") as running:
        os.kill(measuring(running)[1], signal.SIGKILL)
        rest, errors = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 1 and "rank 1" in errors
    (line,) = [line.split() for line in rest.splitlines() if not line.startswith("#")]
    assert (line[1], line[2]) == ("all_reduce", "65536") and int(line[6]) > 20


def test_a_signal_that_is_ignored_ends_nothing():
    with subprocess.Popen(
        ["sh", "-c", f"trap '' HUP; exec {BINARY} perf barrier -N 0 {' '.join(SHORT)}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as running:
        lines_until(running, 1)
        for pid in (running.pid, *children(running.pid)):
            os.kill(pid, signal.SIGHUP)
        lines_until(running, 10)
        running.send_signal(signal.SIGTERM)
        rest, errors = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, errors) == (0, "")
    assert "# Stopped after" in rest


def test_a_rank_that_hangs_is_killed_by_being_asked_again():
    with soak("all_reduce", "--sizes", "1K") as running:
        lines_until(running, 1)
        ranks = children(running.pid)
        os.kill(ranks[1], signal.SIGSTOP)
        # Within a second it is the same request.
        while running.poll() is None:
            running.send_signal(signal.SIGINT)
            time.sleep(0.1)
        # One more may come when it has just given the signals back.
        assert running.returncode in (128 + signal.SIGINT, -signal.SIGINT)
    assert not any(Path(f"/proc/{rank}").exists() for rank in ranks)


def test_loss_is_told_with_its_interval_and_any_host_may_stop_it(tmp_path):
    words = [str(BINARY), "perf", "all_reduce", "--sizes", "1M", "-N", "0", *SHORT]
    words += ["--rendezvous", f"file://{tmp_path}/store"]
    variables = environment(RINGWOOD_TRANSPORTS="tcp", XDG_CACHE_HOME=str(tmp_path))
    with contextlib.ExitStack() as stack:
        try:
            hosts = stack.enter_context(cluster(Shape("two hosts", hosts=2, rate=800)))
        except OSError as error:
            pytest.skip(f"no network namespaces: {error}")
        ranks = []
        for rank in range(2):
            namespace, more = hosts.place(rank)
            ranks.append(
                subprocess.Popen(
                    ["ip", "netns", "exec", namespace, *words],
                    env={**variables, **more},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(ranks[-1].wait)
            stack.callback(ranks[-1].kill)
        lines_until(ranks[0], 2)
        # The cable is out until something was lost.
        before = retransmitted(hosts.namespaces[0])
        command("ip", "-n", hosts.namespaces[1], "link", "set", "rail0", "down")
        while retransmitted(hosts.namespaces[0]) == before:
            time.sleep(0.02)
        command("ip", "-n", hosts.namespaces[1], "link", "set", "rail0", "up")
        told = r"^# 0:\d\d:\d\d Counters of \S+: tcp: .*RetransSegs \+\d+"
        while not re.search(told, ranks[0].stdout.readline()):
            assert ranks[0].poll() is None, ranks[0].stderr.read()
        ranks[1].send_signal(signal.SIGTERM)
        outputs = [rank.communicate(timeout=PATIENCE_S) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    assert "# Stopped after" in outputs[0][0]
    assert re.search(r"^# Counters of \S+: tcp: .*RetransSegs \+\d+", outputs[0][0], re.M)
    assert outputs[1][0] == ""


@contextlib.contextmanager
def endless(file: Path) -> Iterator[subprocess.Popen]:
    """A run without an end, which has written three lines."""
    command = [BINARY, "perf", "all_reduce", "--format", "nccl-tests", "-b", "8", "-e", "8"]
    command += ["-n", "2", "-N", "0", "-J", file]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as run:
        shown = 0
        while shown < 3:
            shown += not run.stdout.readline().startswith("#")
        yield run


def test_what_is_measured_is_written_as_it_comes(tmp_path):
    """Only the last line may be half written."""
    file = tmp_path / "endless.json"
    with endless(file) as run:
        run.kill()
        run.stdout.read()
    head, _, lines = file.read_text().partition('"results": [')
    assert '"version": 3' in head
    assert lines.count('"size":8,') >= 2


def test_a_warm_up_is_stopped_too():
    words = ["-b", "8", "-e", "8", "-N", "0", "-w", "100000000"]
    command_line = [BINARY, "perf", "all_reduce", "--format", "nccl-tests", *words]
    with subprocess.Popen(
        command_line, stdout=subprocess.PIPE, text=True, env=environment(NCCL_TESTS_MIN_BW="1")
    ) as run:
        measuring(run)
        run.send_signal(signal.SIGTERM)
        rest = run.stdout.read()
    assert run.returncode == 0
    assert rest.endswith("# Collective test concluded: all_reduce_perf\n#\n\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_ends_with_its_foot(number, tmp_path):
    file = tmp_path / "endless.json"
    with endless(file) as run:
        run.send_signal(number)
        rest = run.stdout.read()
    assert run.returncode == 0
    assert re.search(r"^# Out of bounds values : 0 OK\n# Avg bus bandwidth    : \S+ \n", rest, re.M)
    assert rest.endswith("# Collective test concluded: all_reduce_perf\n#\n\n")
    results = json.loads(file.read_text())
    assert len(results["results"]) >= 3
    assert results["out_of_bounds"]["okay"] == "true"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["-N", "0", "--batches", "3"], "-N measures for an --interval, not in batches; leave -"),
        (["-N", "0", "-n", "3"], "not in batches; leave --iters out"),
        (["-N", "0", "--algorithm", "all"], "--algorithm algorithms; name one"),
        (["-N", "0", "--html", "a.html"], "has no report for --html; --csv keeps them"),
        (["--interval", "2"], "--interval is what a line takes where the table is repeated"),
        (["-N", "2", "--interval", "0"], "--interval: 0 is not a number from 0.01 to 86400"),
        (["-N", "-1"], "--run_cycles: -1 is not a whole number from 0 to 1000000"),
        (["-N", "2", "--format", "nccl-tests", "--interval", "2"], "in our own format; give -N"),
    ],
)
def test_refusals(words, why):
    done = run("perf", "all_reduce", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr

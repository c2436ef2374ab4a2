"""`ringwood perf` and its neighbours: what is measured, shown and refused."""

import csv
import io
import json
import os
import pty
import re
import subprocess

import pytest
from corruption import corrupting_library
from processes import PATIENCE_S
from ringwood_command import BINARY, absent_here, environment, run, transports

KEYS = [
    *("collective", "ranks", "bytes", "count", "dtype", "op", "time_us_best", "time_us_median"),
    *("algbw_gbs", "busbw_gbs", "cpu_percent", "wrong", "algorithm", "segments", "transports"),
    *("time_us_p50", "time_us_p99", "samples", "slowest_rank", "skew_us_p50", "skew_us_p99"),
    *("last_rank", "last_rank_us", "clock_error_us", "predicted_us", "limit_us", "limit_percent"),
    *("cpu_s_per_gb", "root", "rank_us"),
]
COLLECTIVES = [
    *("all_reduce", "reduce", "broadcast", "all_gather", "gather", "reduce_scatter", "scatter"),
    *("all_to_all", "barrier", "sendrecv"),
]


def rows_of(*arguments: str, **more: str) -> list[dict]:
    """The rows of a run that must succeed; short by default."""
    short = ["-n", "2", "--batches", "2", "-w", "1", "--json"]
    done = run("perf", *arguments, *short, **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["rows"]


def bus_factor(collective: str, n: int) -> float:
    if collective == "all_reduce":
        return 2 * (n - 1) / n
    if collective in ("all_gather", "gather", "reduce_scatter", "scatter", "all_to_all"):
        return (n - 1) / n
    return 1


def test_table_has_the_columns_of_nccl_tests():
    done = run("perf", "all_reduce", "--ranks", "2", "-b", "1K", "-e", "4K", "-n", "3")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    head = next(line for line in lines if " size " in line)
    assert head.split()[1:10] == [
        "size",
        "count",
        "type",
        "redop",
        "root",
        "time",
        "algbw",
        "busbw",
        "#wrong",
    ]
    rows = [line.split() for line in lines if not line.startswith("#")]
    assert [row[:5] for row in rows] == [
        [str(size), str(size // 4), "float32", "sum", "-1"] for size in (1024, 2048, 4096)
    ]
    for row in rows:
        size, time_us, algbw, wrong = int(row[0]), float(row[5]), float(row[6]), row[8]
        assert algbw == pytest.approx(size / time_us / 1e3, abs=0.006, rel=0.01)
        assert (wrong, row[-1]) == ("0", "shm")
    end = lines.index("# Out of bounds values : 0 OK")
    assert lines[end + 1].startswith("# Avg bus bandwidth    : ")


def test_json_is_one_object_and_the_table_goes_to_standard_error():
    done = run("perf", "all_reduce", "--json", "-e", "16", "-n", "3")
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert list(report) == [
        *("version", "host", "environment", "fabric", "hosts", "limits", "failed", "rows")
    ]
    assert re.fullmatch(r"\d+\.\d+\.\d+", report["version"])
    assert [list(row) for row in report["rows"]] == 2 * [KEYS]
    assert "# Out of bounds values : 0 OK" in done.stderr
    for row in report["rows"]:
        assert 0 < row["time_us_best"] <= row["time_us_median"]


def test_files_of_csv_and_json_agree(tmp_path):
    table, tree = tmp_path / "a.csv", tmp_path / "a.json"
    arguments = ["perf", "broadcast", "all_gather", "-e", "1K", "-f", "8", "-n", "3", "-r", "all"]
    done = run(*arguments, "--csv", str(table), "--json", str(tree))
    assert (done.returncode, done.stderr) == (0, "")
    assert "# Out of bounds values : 0 OK" in done.stdout
    lines = list(csv.DictReader(io.StringIO(table.read_text())))
    rows = json.loads(tree.read_text())["rows"]
    assert list(lines[0]) == KEYS
    same = ["collective", "bytes", "count", "dtype", "op", "wrong", "algorithm", "transports"]
    for key in [*same, "root"]:
        assert [line[key] for line in lines] == [str(row[key]) for row in rows]
    assert {row["root"] for row in rows if row["collective"] == "broadcast"} == {0, 1}
    assert {row["root"] for row in rows if row["collective"] == "all_gather"} == {-1}
    for line, row in zip(lines, rows, strict=True):
        each = [float(us) for us in line["rank_us"].split(";")]
        assert each == pytest.approx(row["rank_us"], abs=1e-3)


def test_rows_say_how_times_spread_and_who_was_slow():
    (row,) = rows_of("all_reduce", "--ranks", "3", "--sizes", "64K")
    assert row["samples"] == 4  # as many as the batches had
    assert 0 < row["time_us_p50"] <= row["time_us_p99"]
    assert 0 < row["skew_us_p50"] <= row["skew_us_p99"]
    assert len(row["rank_us"]) == 3
    assert row["rank_us"][row["slowest_rank"]] == max(row["rank_us"])
    assert row["last_rank"] in (0, 1, 2) and row["last_rank_us"] > 0
    assert row["clock_error_us"] == 0  # the ranks of a host have one clock
    assert row["predicted_us"] > 0
    assert row["limit_percent"] == pytest.approx(row["limit_us"] / row["time_us_best"] * 100)
    assert row["cpu_s_per_gb"] > 0


def test_too_little_bandwidth_fails_the_run():
    small = ["perf", "all_reduce", "--sizes", "64,64K", "-n", "2", "--batches", "2"]
    assert run(*small, "--min-busbw", "0.000001").returncode == 0
    done = run(*small, "--min-busbw", "1e5", "--json")
    assert done.returncode == 1
    why = done.stderr.splitlines()[-1]
    assert re.fullmatch(
        r"ringwood: all_reduce of (64|65536) B reaches \S+ GB/s of bus bandwidth, less than the "
        r"1e\+05 of --min-busbw \(2 of 2 lines are below it\)",
        why,
    )
    assert json.loads(done.stdout)["failed"] == [why.removeprefix("ringwood: ")]


def test_a_transport_that_is_not_used_fails_the_run():
    barrier = ["perf", "barrier", "-n", "1", "--batches", "1", "--require"]
    assert run(*barrier, "shm").returncode == 0
    done = run(*barrier, "verbs,tcp")
    assert done.returncode == 1
    assert done.stderr == (
        "ringwood: no rank reaches another one over verbs or tcp as --require says; all ranks are "
        "on one host\n"
    )
    refused = run(*barrier, "pigeons")
    assert refused.returncode == 2
    assert 'no transport "pigeons"' in refused.stderr


def test_csv_to_standard_output():
    done = run("perf", "--csv", "all_reduce", "-e", "8", "-n", "3")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == ",".join(KEYS)
    assert len(done.stdout.splitlines()) == 2


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_every_collective(ranks):
    rows = rows_of("all", "--ranks", str(ranks), "-e", "300K", "-f", "17")
    expected = [c for c in COLLECTIVES if c != "sendrecv" or ranks > 1]
    assert list(dict.fromkeys(row["collective"] for row in rows)) == expected
    for row in rows:
        assert (row["ranks"], row["wrong"]) == (ranks, 0), row
        if row["bytes"]:
            assert row["algbw_gbs"] == pytest.approx(row["bytes"] / row["time_us_best"] / 1e3)
        factor = bus_factor(row["collective"], ranks)
        assert row["busbw_gbs"] == pytest.approx(row["algbw_gbs"] * factor)


@pytest.mark.parametrize("root", ["0", "2"])
def test_every_root(root):
    rows = rows_of(
        "reduce", "broadcast", "gather", "scatter", "--ranks", "3", "-r", root, "-e", "4K"
    )
    assert {row["wrong"] for row in rows} == {0}


@pytest.mark.parametrize("ranks", ["2", "9"])
def test_every_type_and_operation_is_exact(ranks):
    arguments = ["all_reduce", "reduce_scatter", "-d", "all", "-o", "all", "--sizes", "8,4K"]
    rows = rows_of(*arguments, "--ranks", ranks)
    assert len({row["dtype"] for row in rows}) == 15
    assert len({row["op"] for row in rows}) == 9
    assert [row for row in rows if row["wrong"] != 0] == []


def test_touched():
    rows = rows_of("all", "--touch", "--ranks", "2", "-e", "64K", "-f", "32")
    assert {row["wrong"] for row in rows} == {0}


def test_some_algorithms_in_turns():
    names = {"ring", "double_tree"}
    found = run(
        "perf", "all_reduce", "--ranks", "3", "--sizes", "64K", "-a", ",".join(names), "--json"
    )
    rows = json.loads(found.stdout)["rows"]
    assert {row["algorithm"] for row in rows} == names
    assert all(row["wrong"] == 0 and row["predicted_us"] > 0 for row in rows)


def test_every_algorithm_by_name():
    table = [line.split()[:2] for line in run("algorithms").stdout.splitlines()]
    assert {row[0] for row in table} == set(COLLECTIVES) - {"sendrecv"}
    for collective, name in table:
        # Some want two ranks, or several hosts.
        if run("schedule", "verify", collective, name, "--ranks", "4").returncode == 2:
            continue
        rows = rows_of(
            collective, "-a", name, "--ranks", "4", "--segments", "2", "--sizes", "64,9000"
        )
        assert {(row["algorithm"], row["segments"], row["wrong"]) for row in rows} == {(name, 2, 0)}


@pytest.mark.parametrize("transport", transports())
def test_transport_by_name(transport):
    if why := absent_here(transport):
        pytest.skip(why)
    rows = rows_of("all_reduce", "sendrecv", "--transport", transport, "--sizes", "8,100K")
    assert {(row["transports"], row["wrong"]) for row in rows} == {(transport, 0)}


@pytest.mark.parametrize(
    ("arguments", "sizes"),
    [
        (["-b", "8", "-e", "64"], [8, 16, 32, 64]),
        (["-b", "1K", "-e", "1M", "-f", "32"], [1024, 32768, 1048576]),
        (["-b", "4KiB", "-e", "12kb", "-i", "4096"], [4096, 8192, 12288]),
        (["--sizes", "64,8,8"], [8, 64]),
        (["--sizes", "1.5K,0.5k"], [512, 1536]),
        (["-b", "1", "-e", "8"], [4, 8]),  # at least one element
    ],
)
def test_sizes(arguments, sizes):
    assert [row["bytes"] for row in rows_of("broadcast", *arguments)] == sizes


def test_unchecked_is_not_called_right():
    done = run("perf", "all_reduce", "-e", "8", "-n", "3", "--check", "0", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["rows"][0]["wrong"] is None
    assert "OK" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "which command?"),
        (["perm"], "perm"),
        (["perf"], "which collective?"),
        (["perf", "all_reduces"], "there is no collective"),
        (["perf", "all_reduce", "--frob"], "--frob"),
        (["perf", "all_reduce", "-b", "x"], "is not a size"),
        (["perf", "all_reduce", "-e", "3P"], "is not a size"),
        (["perf", "all_reduce", "-g", "1024", "-t", "1024"], "are 1048576 ranks on this host"),
        (["perf", "all_reduce", "--hosts", "8x8"], "mpirun, srun, torchrun, or --ranks N"),
        (["perf", "all_reduce", "--sizes", ","], '--sizes "," names nothing'),
        (["perf", "all_reduce", "--require", ""], '--require "" names nothing'),
        (["perf", "all_reduce", "--algorithm", ""], '--algorithm "" names nothing'),
        (["perf", "all_reduce", "--transport", ","], '--transport "," names nothing'),
        (["perf", "all_reduce", "--tolerance", "nan"], "nan is not a number from 0 to 0.999"),
        (["perf", "all_reduce", "-T", "inf"], "inf is not a number"),
        (["perf", "all_reduce", "--min-busbw", "nan"], "nan is not a number"),
        (["perf", "all_reduce", "--ranks", "two"], "two is not a whole number from 1 to 1024"),
        (["perf", "all_reduce", "--ranks", "0x2"], "0x2 is not a whole number"),
        (["perf", "all_reduce", "-f", "1.5"], "1.5 is not a whole number 0 or more"),
        (["perf", "all_reduce", "-n", ""], '"" is not a whole number'),
        (["perf", "all_reduce", "-e", "1.5"], "more than"),
        (["perf", "all_reduce", "-e", "1.x5G"], "is not a size"),
        (["perf", "all_reduce", "-e", "9999999999G"], "is not a size"),
        # More than 32 bits can be a number of bytes.
        (["perf", "all_reduce", "-b", "8589934592", "-e", "4294967296"], "more than"),
        (["perf", "all_reduce", "-b", "1M", "-e", "8"], "more than"),
        (["perf", "all_reduce", "-f", "1"], "--stepfactor"),
        (["perf", "all_reduce", "-n", "-3"], "--iters"),
        (["perf", "all_reduce", "-d", "floaty"], "float64, float32"),
        (["perf", "all_reduce", "-o", "plus"], "sum, avg"),
        (["perf", "all_reduce", "-o", "band"], "cannot be reduced"),
        (["perf", "all_reduce", "--ranks", "0"], "--ranks"),
        (["perf", "reduce", "-r", "7"], "--root 7"),
        (["perf", "all_reduce", "-a", "tree"], "has no algorithm"),
        (["perf", "all_reduce", "-a", "ring,tree"], "has no algorithm"),
        (["perf", "all_reduce", "--transport", "pigeon"], "no transport"),
        (["perf", "sendrecv", "--ranks", "1"], "2 ranks"),
        (["perf", "sendrecv", "-a", "ring"], "no algorithms"),
        (["perf", "all_reduce", "--json", "--csv"], "both"),
        (["perf", "all_reduce", "--matrix", "m.json"], "give both"),
        (["perf", "all_reduce", "--json", "/nowhere/x"], "--json: cannot write /nowhere/x"),
        (["perf", "all_reduce", "--csv", "/nowhere/x"], "--csv: cannot write /nowhere/x"),
        (["perf", "all_reduce", "--html", "/nowhere/x"], "--html: /nowhere is not a folder"),
        (["perf", "all_reduce", "--html", "/"], "--html /: it is a folder"),
        (["perf", "all_reduce", "--matrix", "hosts"], "by ringwood matrix --json FILE, started as"),
        (
            ["perf", "all_reduce", "--matrix", "rails"],
            "ringwood matrix --rails mlx5_0,mlx5_1 --json",
        ),
        (["perf", "all_reduce", "--memory", "gpu"], "none of private, shared, remapped and cuda"),
        (["perf", "all_reduce", "--memory", "1"], "none of private, shared, remapped and cuda"),
        (["perf", "all_reduce", "--touch=3"], "--touch takes no value"),
        (["perf", "all_reduce", "--ranks"], "--ranks needs a value: --ranks N"),
        (["perf", "all_reduce", "-p"], "--parallel_init needs a value: --parallel_init N"),
        (["perf", "all_reduce", "--hosts"], "mpirun, srun, torchrun, or --ranks N"),
        (["perf", "all_reduce", "-q"], "has no option -q; see"),
        (["perf", "all_reduce", "--tpo"], "has no option --tpo"),
        (["perf", "all_redcue"], '"all_redcue"; did you mean all_reduce? There are'),
        (["perf", "all_reduce", "-d", "flaot32"], "did you mean float32? Use one of"),
        (["perf", "all_reduce", "-o", "proudct"], "did you mean product? Use one of"),
        (["perf", "all_reduce", "-a", "rign"], "did you mean ring? It has"),
        (["perf", "all_reduce", "--transport", "tpc"], "did you mean tcp? There are"),
        (["perf", "all_reduce", "-i", "8"], "--stepbytes 8 makes more than 1000000 sizes"),
    ],
)
def test_bad_input_is_one_sentence(arguments, told):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert done.stderr.startswith("ringwood: ")
    assert len(done.stderr.splitlines()) == 1


def test_bad_environment_is_bad_input():
    for arguments in (["env"], ["perf", "all_reduce"]):
        done = run(*arguments, RINGWOOD_TIMEOUT="soon")
        assert done.returncode == 2
        assert "RINGWOOD_TIMEOUT" in done.stderr


def test_environment_shows_the_origin():
    lines = run("env", RINGWOOD_TIMEOUT="7").stdout.splitlines()
    rows = [line.split() for line in lines if line.startswith("RINGWOOD_")]
    (timeout,) = [row for row in rows if row[0] == "RINGWOOD_TIMEOUT"]
    assert timeout[1:4] == ["7", "environment", "300"]
    assert {row[2] for row in rows if row is not timeout} == {"default"}
    # Those that a user must know come first.
    experts = lines.index("# for experts")
    assert lines[0] == "# for users"
    assert 10 < sum(line.startswith("RINGWOOD_") for line in lines[:experts]) <= 20
    assert any(line.startswith("RINGWOOD_SIMD ") for line in lines[experts:])


def test_environment_says_why():
    short, long = run("env").stdout.splitlines(), run("env", "--why").stdout.splitlines()
    rows = [line for line in short if line.startswith("RINGWOOD_")]
    assert len(long) == len(short) + 2 * len(rows)
    timeout = next(i for i, line in enumerate(long) if line.startswith("RINGWOOD_TIMEOUT "))
    assert long[timeout + 1] == "#   RINGWOOD_TIMEOUT=2.5"
    assert "5 minutes" in long[timeout + 2]


def test_help_and_version():
    assert "perf" in run("--help").stdout
    assert "--minbytes" in run("perf", "--help").stdout
    assert re.fullmatch(r"ringwood \d+\.\d+\.\d+\n", run("--version").stdout)


def test_wrong_results_are_counted_and_end_with_1(tmp_path):
    library = corrupting_library(tmp_path)
    arguments = ["perf", "all_reduce", "--transport", "tcp", "--sizes", "1M", "-w", "0", "-n", "2"]
    done = run(*arguments, "--json", LD_PRELOAD=library)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["rows"][0]["wrong"] > 0
    assert re.search(r"# Out of bounds values : \d+ FAILED", done.stderr)
    assert run(*arguments).returncode == 0


def test_progress_is_shown_on_a_terminal_only():
    master, slave = pty.openpty()
    with subprocess.Popen(
        [str(BINARY), "perf", "all_reduce", "-e", "8"],
        stdout=subprocess.DEVNULL,
        stderr=slave,
        env=environment(),
    ) as process:
        os.close(slave)
        shown = b""
        while b"batch 1 of 7" not in shown:  # later ones at most ten times a second
            shown += os.read(master, 4096)
        assert process.wait(PATIENCE_S) == 0
    os.close(master)
    assert run("perf", "all_reduce", "-e", "8").stderr == ""

"""`ringwood perf --format nccl-tests`: the format of NVIDIA/nccl-tests 2.19.6, field by field."""

import json
import os
import re
import shutil
import subprocess

import pytest
from processes import PATIENCE_S
from ringwood_command import BINARY, environment, run

FIXED = [
    *("perf", "all_reduce", "--format", "nccl-tests", "-b", "1M", "-e", "4M", "-f", "2"),
    *("-g", "2", "-n", "20", "-w", "5", "-c", "1"),
]
NUMBER = r"\d+(?:\.\d+)?(?:e[+-]\d+)?"
SIDE = r"  (?P<time%d>[ \d.e+]{7})  (?P<algbw%d>[ \d.]{6})  (?P<busbw%d>[ \d.]{6})"
SIDE += r"  (?P<wrong%d>[ \d]{6}|  N/A)"
LINE = re.compile(
    r"^(?P<size>[ \d]{12})  (?P<count>[ \d]{12})  (?P<type>[ \w]{8})  (?P<op>[ \w]{6})"
    r"  (?P<root>[ \-\d]{6})" + SIDE % (0, 0, 0, 0) + SIDE % (1, 1, 1, 1)
)


def measured(*arguments: str, **more: str) -> subprocess.CompletedProcess:
    done = run("perf", *arguments, "--format", "nccl-tests", "-n", "2", **more)
    assert done.returncode == 0, done.stderr
    return done


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def test_the_command_that_scripts_depend_on():
    done = run(*FIXED)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert re.fullmatch(
        r"# nccl-tests version 2\.19\.6 nccl-headers=\d+ nccl-library=\d+", lines[0]
    )
    assert lines[1] == "# Collective test starting: all_reduce_perf"
    assert lines[2] == (
        "# nThread 1 nGpus 2 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 "
        "iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0"
    )
    using = lines.index("# Using devices")
    rank = re.compile(r"#  Rank  (\d) Group  0 Pid +\d+ on +\S+ device  (\d) \[0000:00:00\] \S.*")
    assert [rank.fullmatch(line).groups() for line in lines[using + 1 : using + 3]] == [
        ("0", "0"),
        ("1", "1"),
    ]
    assert lines[using + 3 : using + 7] == [
        "#",
        "#" + " " * 62 + "out-of-place" + " " * 23 + "in-place" + " " * 10,
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong"
        "     time   algbw   busbw  #wrong ",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)        "
        "     (us)  (GB/s)  (GB/s)         ",
    ]
    body = lines[using + 7 : -6]
    assert [LINE.fullmatch(line)["size"].strip() for line in body] == [
        "1048576",
        "2097152",
        "4194304",
    ]
    assert lines[-6] == "# Out of bounds values : 0 OK"
    assert re.fullmatch(rf"# Avg bus bandwidth    : {NUMBER} ", lines[-5])
    assert lines[-4:] == ["#", "# Collective test concluded: all_reduce_perf", "#", ""]


def test_fields_mean_what_they_mean_there():
    done = measured("all_reduce", "-b", "64K", "-e", "256K", "-f", "2", "-g", "3")
    table = rows(done.stdout)
    for size, row in zip((65536, 131072, 262144), table, strict=True):
        assert len(row) == 13  # so that field 12 of awk is the bus bandwidth in place
        assert row[:5] == [str(size), str(size // 4), "float", "sum", "-1"]
        for time, algbw, busbw, wrong in (row[5:9], row[9:13]):
            assert float(algbw) == pytest.approx(size / float(time) / 1e3, abs=0.006, rel=0.002)
            assert float(busbw) == pytest.approx(float(algbw) * 4 / 3, abs=0.015)
            assert wrong == "0"
    footer = float(re.search(rf"# Avg bus bandwidth    : ({NUMBER}) ", done.stdout)[1])
    every = [float(row[i]) for row in table for i in (7, 11)]
    assert footer == pytest.approx(sum(every) / len(every), abs=0.006)


@pytest.mark.parametrize(
    ("collective", "op", "roots", "program"),
    [
        ("all_gather", "none", ["-1"], "all_gather_perf"),
        ("reduce_scatter", "sum", ["-1"], "reduce_scatter_perf"),
        ("alltoall", "none", ["-1"], "alltoall_perf"),
        ("sendrecv", "sum", ["-1"], "sendrecv_perf"),
        ("broadcast", "none", ["0", "1", "2"], "broadcast_perf"),
        ("reduce", "sum", ["0", "1", "2"], "reduce_perf"),
        ("gather", "none", ["0", "1", "2"], "gather_perf"),
        ("scatter", "none", ["0", "1", "2"], "scatter_perf"),
    ],
)
def test_every_collective_out_of_place_and_in_place(collective, op, roots, program):
    done = measured(collective, "-g", "3", "-b", "1000", "-e", "1000", "-r", "all")
    assert f"# Collective test concluded: {program}" in done.stdout
    table = rows(done.stdout)
    blocks = collective in ("all_gather", "reduce_scatter", "alltoall", "gather", "scatter")
    # There, the elements of a block fill whole pieces of 16 bytes.
    size, count = (960, 80) if blocks else (1000, 250)
    assert [row[:5] for row in table] == [[str(size), str(count), "float", op, r] for r in roots]
    factor = 2 / 3 if blocks else 1
    for row in table:
        assert (row[8], row[12]) == ("0", "0")
        for algbw, busbw in (row[6:8], row[10:12]):
            assert float(busbw) == pytest.approx(float(algbw) * factor, abs=0.011)


def test_types_and_operations_have_their_names_there():
    done = measured("all_reduce", "-b", "4K", "-e", "4K", "-d", "all", "-o", "all", "-g", "2")
    pairs = {(row[2], row[3]) for row in rows(done.stdout)}
    assert {name for name, _ in pairs} == {
        *("int8", "uint8", "int32", "uint32", "int64", "half", "float", "double"),
        *("bfloat16", "f8e4m3", "f8e5m2"),
    }
    assert {op for name, op in pairs if name == "half"} == {
        *("sum", "prod", "max", "min", "avg", "mulsum")
    }
    assert {row[8] for row in rows(done.stdout)} == {"0"}


def test_json_has_the_schema_of_nccl_tests(tmp_path):
    file = tmp_path / "out.json"
    done = measured(
        *("all_reduce", "-b", "8", "-e", "8K", "-f", "32", "-g", "2", "-J", str(file)),
        *("-I", "1", "-K", "1", "-S", "1"),
        RINGWOOD_TIMEOUT="100",
        PASSWORD="secret",
        SLURM_JWT="secret",
    )
    assert done.stdout.startswith(f"# Writing JSON output to {file}\n")
    report = json.loads(file.read_text())
    assert list(report) == [
        *("version", "start_time", "args", "env", "nccl_version", "config", "results"),
        *("out_of_bounds", "average_bus_bandwidth", "errors", "end_time"),
    ]
    assert report["version"] == 3
    assert report["args"][1:4] == ["perf", "all_reduce", "-b"]
    assert report["env"].count("RINGWOOD_TIMEOUT=100") == 1
    assert "secret" not in file.read_text()
    config = report["config"]
    assert [config[key] for key in ("ngpus", "minimum_bytes", "maximum_bytes", "step_factor")] == [
        *(2, 8, 8192, 32)
    ]
    assert (config["per_iter_timing"], config["blocking_collectives"]) == ("true", "false")
    assert [set(device) for device in config["devices"]] == 2 * [
        {"rank", "group", "pid", "hostname", "device", "device_hex", "device_info"}
    ]
    assert [result["size"] for result in report["results"]] == [8, 256, 8192]
    for result in report["results"]:
        assert result["root"] == "    -1"
        assert (result["type"], result["redop"], result["actual_iterations"]) == ("float", "sum", 2)
        for side in ("out_of_place", "in_place"):
            assert set(result[side]) == {"time", "alg_bw", "bus_bw", "nwrong"}
            assert result[side]["nwrong"] == 0
            each = result[f"{side}_per_iter"]
            ranks = each["per_process_max_times_us"]
            assert each["times_us"] == [max(times) for times in zip(*ranks, strict=True)]
            assert each["skipped_iterations"] == 1
            assert each["min_us"] == each["max_us"] == each["p50_us"] == each["times_us"][1]
    assert report["out_of_bounds"] == {"count": 0, "okay": "true"}
    assert report["average_bus_bandwidth"]["okay"] == "unchecked"
    for row in rows(done.stdout):
        assert len(row) == 13 + 8 + 2
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", row[-2])
    # What is there is kept.
    again = measured("all_reduce", "-b", "8", "-e", "8", "-g", "2", "-J", str(file))
    assert again.stdout.startswith(f"# Writing JSON output to {file}.0\n")
    assert json.loads(file.read_text()) == report


def test_the_least_bandwidth_of_nccl_tests():
    small = ["perf", "all_reduce", "--format", "nccl-tests", "-b", "1M", "-e", "1M", "-n", "3"]
    well = run(*small, NCCL_TESTS_MIN_BW="0.001")
    assert well.returncode == 0
    assert re.search(rf"^# Avg bus bandwidth    : {NUMBER} OK$", well.stdout, re.MULTILINE)
    badly = run(*small, NCCL_TESTS_MIN_BW="100000")
    assert badly.returncode == 1
    assert re.search(rf"^# Avg bus bandwidth    : {NUMBER} FAILED$", badly.stdout, re.MULTILINE)


@pytest.mark.parametrize("demand", [["--min-busbw", "1e5"], ["--require", "verbs"]])
@pytest.mark.parametrize("by_name", [False, True])
def test_demands_that_are_not_met_fail_the_run(demand, by_name, tmp_path):
    program = tmp_path / "all_reduce_perf"
    program.symlink_to(BINARY)
    command = [program] if by_name else [BINARY, "perf", "all_reduce", "--format", "nccl-tests"]
    command += ["-b", "1K", "-e", "1M", "-f", "1024", "-n", "2", *demand]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(), timeout=PATIENCE_S
    )
    assert done.returncode == 1
    (why,) = done.stderr.splitlines()
    if demand[0] == "--require":
        assert why.startswith("ringwood: no rank reaches another one over verbs as --require says")
    else:
        assert re.fullmatch(
            rf"ringwood: all_reduce of \d+ B \w+ (of )?place reaches {NUMBER} GB/s of bus "
            r"bandwidth, less than the 1e\+05 of --min-busbw \(4 of 4 lines are below it\)",
            why,
        )
    assert "# Out of bounds values : 0 OK" in done.stdout
    met = [*command[: -len(demand)], "--min-busbw", "1e-6", "--require", "shm"]
    done = subprocess.run(
        met, capture_output=True, text=True, env=environment(), timeout=PATIENCE_S
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_flags_are_taken_or_told():
    done = measured(
        *("all_reduce", "-b", "8", "-e", "8", "-t", "2", "-g", "1", "-G", "1", "-p", "1"),
        *("-z", "1", "-m", "2", "-a", "3", "-N", "2", "-u", "3", "-T", "0"),
    )
    assert "\n".join(done.stderr.splitlines()) == (
        "ringwood: -p, -G mean nothing where no GPU is used; ignored\n"
        "ringwood: -m: the operations of an iteration are carried out one by one"
    )
    assert len(rows(done.stdout)) == 2
    assert " agg iters: 2 " in done.stdout and " unalign: 3\n" in done.stdout
    assert "# Blocking Enabled: wait and barrier after each inner iteration (-m)" in done.stdout


# Scripts append what overrides their defaults.
def test_the_last_of_a_flag_counts():
    done = measured(
        "all_reduce", "-b", "8", "-e", "64", "-f", "2", "-g", "3", "-e", "16", "-g", "2"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [row[0] for row in rows(done.stdout)] == ["8", "16"]
    assert " nGpus 2 " in done.stdout


def test_flags_change_heads_as_there(tmp_path):
    file = tmp_path / "out.json"
    done = measured(
        *("all_reduce", "-b", "8", "-e", "8", "-C", "1", "-z", "2", "-I", "1", "-K", "2"),
        *("-J", str(file)),
    )
    assert done.stderr == "ringwood: -K 2 leaves none of the 2 iterations; ignored\n"
    assert "# Blocking Enabled: wait after each inner iteration (-m), no barrier \n" in done.stdout
    assert re.search(r"^# +size .*  cputime   algbw .*  cputime   algbw ", done.stdout, re.M)
    report = json.loads(file.read_text())
    assert report["config"]["blocking_collectives"] == "true"
    assert set(report["results"][0]["in_place"]) == {"cpu_time", "alg_bw", "bus_bw", "nwrong"}


def test_a_least_bandwidth_that_is_no_number_is_no_demand_that_passes():
    done = run(*FIXED, NCCL_TESTS_MIN_BW="abc")
    assert (done.returncode, done.stdout) == (2, "")
    assert "NCCL_TESTS_MIN_BW=abc is not a number of GB/s" in done.stderr


def test_defaults_that_scripts_write_are_not_warned_of():
    done = run(*FIXED, *["-p", "0", "-y", "0", "-G", "0", "-M", "0", "--memory", "0"])
    assert (done.returncode, done.stderr) == (0, "")
    done = run(*FIXED, *["-G", "1", "--memory", "1"])
    assert done.returncode == 0
    assert "-G means nothing where no GPU is used" in done.stderr
    assert "--memory 1 is a report on the memory of GPUs; ignored" in done.stderr


@pytest.mark.parametrize(("words", "ranks"), [([], 2), (["--ranks", "3"], 3), (["-t", "2"], 2)])
def test_the_head_says_how_many_are_started(words, ranks):
    done = run("perf", "all_reduce", "--format", "nccl-tests", "-b", "1K", "-e", "1K", *words)
    threads, gpus = re.search(r"nThread (\d+) nGpus (\d+)", done.stdout).groups()
    assert int(threads) * int(gpus) == ranks == done.stdout.count("#  Rank ")


def test_sizes_that_memory_is_not_enough_for_are_left_out():
    done = measured("all_reduce", "-b", "8", "-e", "9000G", "-f", "1000000000000")
    (row,) = rows(done.stdout)
    assert row[0] == "8"
    most = re.search(
        r"^#\n# Reducing maxBytes to (\d+) due to memory limitation$", done.stdout, re.M
    )
    assert 0 < int(most[1]) < 9000 << 30
    ours = ["perf", "all_reduce", "all_to_all", "-n", "2", "--batches", "1", "--json", "--sizes"]
    done = run(*ours, "8,9000G")
    assert done.returncode == 0
    assert [row["bytes"] for row in json.loads(done.stdout)["rows"]] == [8, 8]
    assert done.stderr.count("# Reducing maxBytes to ") == 1
    done = run(*ours, "9000G")
    assert done.returncode == 2
    assert "the buffers of 9663676416000 B do not fit into the memory that is left" in done.stderr


@pytest.mark.parametrize("program", ["alltoallv_perf", "hypercube_perf_mpi"])
def test_programs_without_a_counterpart_are_told(program, tmp_path):
    (tmp_path / program).symlink_to(BINARY)
    done = subprocess.run(
        [tmp_path / program, "-b", "8"], capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 2
    told = program.removesuffix("_mpi")
    assert f"nccl-tests' {told} has no counterpart here; the nearest is " in done.stderr


def test_defaults_are_those_of_nccl_tests():
    done = run("perf", "all_reduce", "--format", "nccl-tests", "-c", "0", "-n", "1")
    assert done.returncode == 0
    assert "minBytes 33554432 maxBytes 33554432 step: 1048576(bytes) warmup iters: 1" in done.stdout
    (row,) = rows(done.stdout)
    assert (row[0], row[8], row[12]) == ("33554432", "N/A", "N/A")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["all_reduce", "--format", "nccl-tests", "-a", "ring"], "named by --algorithm"),
        (["all_reduce", "all_gather", "--format", "nccl-tests"], "one collective"),
        (["barrier", "--format", "nccl-tests"], "no barrier_perf"),
        (["all_reduce", "--format", "nccl-tests", "--json"], "-J FILE"),
        (["all_reduce", "-J", "x.json"], "belongs to --format nccl-tests"),
        (["all_reduce", "--format", "nccl-tests", "-J", "/nowhere/x.json"], "-J: /nowhere is not"),
        (["all_reduce", "--format", "nccl-tests", "-J", ""], '-J "" names no file'),
        (["all_reduce", "--format", "nccl-tests", "-J", "/"], "-J /: it is a folder"),
        (["all_reduce", "--format", "nccl-tests", "--average", "x"], '--average "x" is not 0, 1'),
        (["all_reduce", "--format", "nccl-tests", "--memory", "2"], "none of private, shared"),
        (["all_reduce", "--ranks", "3", "-g", "2"], "contradicts"),
        (["all_reduce", "-r", "first"], "is not a rank"),
    ],
)
def test_refusals(arguments, why):
    done = run("perf", *arguments)
    assert done.returncode == 2
    assert why in done.stderr
    assert done.stdout == ""


def test_a_link_with_the_name_of_their_program_is_that_program(tmp_path):
    program = tmp_path / "all_gather_perf"
    program.symlink_to(BINARY)
    done = subprocess.run(
        [program, *["-b", "1K", "-e", "1K", "-g", "2", "-n", "2"]],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    assert rows(done.stdout)[0][:5] == ["1024", "128", "float", "none", "-1"]


@pytest.mark.parametrize("gpus", ["1", "3"])
def test_the_only_process_of_a_launcher_starts_the_ranks(gpus):
    """As in a batch script, or by `srun -n 1`: all variables of a launcher are there."""
    slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0"}
    done = measured("all_reduce", "-b", "1K", "-e", "1K", "-g", gpus, **slurm)
    ranks = [line.split()[2] for line in done.stdout.splitlines() if "#  Rank" in line]
    assert ranks == [str(rank) for rank in range(int(gpus))]
    assert (f" nGpus {gpus} " in done.stdout, done.stderr) == (True, "")


@pytest.mark.skipif(not shutil.which("mpirun.openmpi"), reason="there is no Open MPI here")
@pytest.mark.parametrize("gpus", ["1", "8"])
def test_ranks_of_a_launcher_have_a_gpu_each(gpus):
    """As health checks start it: one process per GPU, each with -g 1."""
    command = ["mpirun.openmpi", "-n", "2", "--oversubscribe", "--allow-run-as-root", BINARY]
    command += ["perf", "all_reduce", "--format", "nccl-tests", "-b", "1K", "-e", "1K"]
    command += ["-g", gpus, "-n", "2"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment(HOME=os.environ["HOME"]),
    )
    assert done.returncode == 0, done.stderr
    assert [line.split()[2] for line in done.stdout.splitlines() if "#  Rank" in line] == ["0", "1"]
    assert "# nThread 1 nGpus 1 " in done.stdout
    told = "-g and -t ask for 8 ranks in each process; each of the 2 processes"
    assert done.stderr.count(told) == (gpus == "8")
    assert len(rows(done.stdout)) == 1

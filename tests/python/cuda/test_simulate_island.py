"""`ringwood simulate --island-model`: what GPUs that NVLink joins would take."""

import json

import pytest
from ringwood_command import run

H100 = ["--island", "8", "--island-model", "h100"]


def simulated(*arguments: str) -> dict:
    done = run("simulate", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_sizes_in_a_table():
    done = run("simulate", "all_reduce", "8,64K,256M", *H100)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    assert [(row[1], row[3]) for row in rows] == [
        ("8", "packets"),
        ("65536", "packets"),
        ("268435456", "bulk"),
    ]
    assert "8 devices of an island, h100" in done.stdout
    assert "no device was measured" in done.stdout


def test_small_ones_are_latency_and_large_ones_bandwidth():
    report = simulated("all_reduce", "8,256M", *H100)
    assert (report["ranks"], report["hosts"]) == (8, 1)
    small, large = report["rows"]
    # Launch and a flag; 320 GiB/s in each direction.
    assert small["time_us"] == pytest.approx(2.3, rel=0.02)
    assert large["busbw_gbs"] == pytest.approx(320 * 2**30 / 1e9, rel=0.1)
    assert large["algbw_gbs"] == pytest.approx(2**28 / large["time_us"] / 1e3)
    assert large["busbw_gbs"] == pytest.approx(large["algbw_gbs"] * 2 * 7 / 8)


def test_all_rows_both_ways():
    rows = simulated("all_reduce", "64K", *H100, "-a", "all")["rows"]
    assert {(row["algorithm"], row["way"]) for row in rows} >= {
        ("direct", "bulk"),
        ("direct", "packets"),
        ("ring", "bulk"),
    }
    assert [row["chosen"] for row in rows].count(True) == 1
    (choice,) = simulated("all_reduce", "64K", *H100)["rows"]
    assert choice in rows
    only = simulated("all_reduce", "64K", *H100, "-a", "ring")["rows"]
    assert {row["algorithm"] for row in only} == {"ring"} and not only[0]["chosen"]


@pytest.mark.parametrize("collective", ["all_gather", "broadcast", "reduce_scatter", "all_to_all"])
def test_other_collectives(collective):
    (row,) = simulated(collective, "16M", *H100)["rows"]
    assert row["time_us"] > 2.3 and 0 < row["busbw_gbs"] < 320 * 2**30 / 1e9


def test_a_barrier_is_the_hello():
    (row,) = simulated("barrier", "0", *H100)["rows"]
    assert (row["algorithm"], row["time_us"]) == ("hello", pytest.approx(2.3))


def test_parameters_of_ones_own(tmp_path):
    changes = ["--island-set", "link=100G", "--island-set", "launch=20us"]
    report = simulated("all_reduce", "8,1G", *H100, *changes)
    small, large = report["rows"]
    assert small["time_us"] == pytest.approx(20.6, rel=0.02)
    assert large["busbw_gbs"] == pytest.approx(100, rel=0.02)
    saved = tmp_path / "island.txt"
    saved.write_text(f"# ours\n{report['island']}\n")
    assert simulated("all_reduce", "8,1G", "--island-model", str(saved)) == report


def test_two_islands_on_rails():
    report = simulated("all_reduce", "64,1G", *H100, "--hosts", "2")
    assert (report["ranks"], report["hosts"]) == (16, 2)
    small, large = report["rows"]
    assert small["pieces"] == 1 and small["time_us"] == pytest.approx(1.7 + 2 * 0.6 + 14, rel=0.02)
    # The links inside are slower than the rails: 7/8 of the data come in and go out twice.
    inside = 2 * 7 / 8 * 2**30 / (320 * 2**30) * 1e6
    assert inside < large["time_us"] < inside * 1.1
    assert large["pieces"] > 1 and large["runs"] is False
    done = run("simulate", "all_reduce", "1G", *H100, "--hosts", "2")
    assert done.returncode == 0 and "nothing of it runs yet" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["all_reduce", "8", "--island-model", "h1000"], "neither h100, h200, b200, nor a file"),
        (["all_reduce", "8", *H100, "--island-set", "lnk=1G"], "no parameter lnk; there are"),
        (["all_reduce", "8", *H100, "--island-set", "link=4x"], "link=4x is not a number from"),
        (["all_reduce", "8", "--island-set", "link=4G"], "requires --island-model"),
        (["all_reduce", "8,", *H100], 'BYTES "" is not a size'),
        (["all_reduce", "8,64K"], 'BYTES "8,64K" is not a size'),
        (["all_reduce", *H100], "bytes is required"),
        (["all_reduce", "8", *H100, "-a", "rng"], "no algorithm rng for 8 devices; there are"),
        (["all_reduce", "8", "--island-model", "h100", "--island", "100"], "more than the 72"),
        (["all_reduce", "8", *H100, "--rails", "2"], "has no use for --rails"),
        (["all_reduce", "8", *H100, "--slow-rank", "rank5=0.1"], "has no use for --slow-rank"),
        (["--replay", "traces", *H100], "has no use for --replay"),
        (["all_gather", "8", *H100, "--hosts", "2"], "only all_reduce is predicted"),
        (["all_reduce", "8", *H100, "--hosts", "2", "-a", "ring"], "leave out -a"),
    ],
)
def test_bad_input_is_answered_with_a_sentence(arguments, why):
    done = run("simulate", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_file_that_is_no_model_is_told(tmp_path):
    file = tmp_path / "island.txt"
    file.write_text("launch=3us\n")
    done = run("simulate", "all_reduce", "8", "--island-model", str(file))
    assert done.returncode == 2 and "begins with ringwood-island-" in done.stderr
    file.write_text("ringwood-island-1 name=mine launch=fast\n")
    done = run("simulate", "all_reduce", "8", "--island-model", str(file))
    assert done.returncode == 2 and "launch=fast is not a number" in done.stderr

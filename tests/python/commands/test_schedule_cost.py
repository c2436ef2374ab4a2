"""`ringwood schedule cost`: what schedules would take, beside what is chosen."""

import json

import pytest
from ringwood_command import run


def costs(*arguments: str) -> dict:
    done = run("schedule", "cost", *arguments, "--parameters", "default", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("collective", "algorithm", "group"),
    [
        ("all_reduce", "ring", ["--ranks", "4"]),
        ("all_reduce", "direct", ["--ranks", "4"]),
        ("broadcast", "binomial", ["--hosts", "2x2"]),
        ("all_gather", "ring", ["--hosts", "0,1,2,3"]),
        ("reduce_scatter", "direct", ["--ranks", "3"]),
        ("all_to_all", "pairwise", ["--ranks", "4"]),
        ("broadcast", "binomial", ["--ranks", "64"]),  # which have smaller rings
    ],
)
def test_a_row_costs_what_explain_says(collective, algorithm, group):
    """`cost` simulates the row by itself; `explain` among all others."""
    sizes = {"all_reduce": "1K,4M", "reduce_scatter": "3K,12M"}.get(collective, "4K,16M")
    told = costs(collective, algorithm, *group, "--sizes", sizes)
    for row, size in zip(told["rows"], sizes.split(","), strict=True):
        found = run("explain", collective, size, *group, "--parameters", "default", "--json")
        candidates = json.loads(found.stdout)["candidates"]
        (chosen,) = [c for c in candidates if c["chosen"]]
        assert row["choice"].split()[0] == chosen["algorithm"]
        assert row["choice_time_us"] == pytest.approx(chosen["time_us"])
        same = [c for c in candidates if c["algorithm"] == algorithm and c["segments"] == 1]
        simulated = [c["time_us"] for c in same if c["simulated"]]
        assert simulated, "explain did not simulate this row: take another"
        assert row["time_us"] == pytest.approx(simulated[0], rel=1e-4)


def test_what_costs_nothing_has_no_ratio():
    words = [
        "cost",
        "all_reduce",
        "ring",
        "--ranks",
        "1",
        "--sizes",
        "1M",
        "--parameters",
        "default",
    ]
    done = run("schedule", *words)
    (line,) = [line.split() for line in done.stdout.splitlines() if "#" not in line]
    assert line == ["1048576", "0.00", "0.00", "0.000", "direct", "0.00", "-"]
    assert costs("all_reduce", "ring", "--ranks", "1", "--sizes", "1M")["rows"][0]["busbw_gbs"] == 0


def test_times_of_a_class_of_sizes_say_so():
    shown = costs("all_reduce", "ring", "--hosts", "4x2", "--sizes", "15M,16777215,16M")["rows"]
    assert shown[0]["time_us"] == shown[1]["time_us"] < shown[2]["time_us"]
    for row in shown[1:]:
        assert row["busbw_gbs"] == pytest.approx(shown[0]["busbw_gbs"], rel=0.02)
    place = ["--hosts", "4x2", "--parameters", "default"]
    rounded = "sizes are rounded down to an eighth of a power of two"
    for command in (
        ["schedule", "cost", "all_reduce", "ring", "--sizes"],
        ["explain", "all_reduce"],
    ):
        assert rounded in run(*command, "16777215", *place).stdout
        assert rounded not in run(*command, "16M", *place).stdout


def test_a_text_costs_what_its_row_costs(tmp_path):
    file = tmp_path / "ring.txt"
    file.write_text(run("schedule", "show", "all_reduce", "ring", "--hosts", "2x2").stdout)
    of_row = costs("all_reduce", "ring", "--hosts", "2x2", "--segments", "4")
    of_text = costs("all_reduce", "--file", str(file), "--hosts", "2", "--segments", "4")
    assert of_text["rows"] == of_row["rows"]
    assert (of_text["algorithm"], of_row["algorithm"]) == (None, "ring")
    apart = costs("all_reduce", "--file", str(file), "--hosts", "0,1,2,3", "--segments", "4")
    assert apart["rows"] != of_row["rows"]


def test_what_is_refuted_is_not_costed(tmp_path):
    file = tmp_path / "wrong.txt"
    file.write_text(run("schedule", "show", "all_reduce", "ring").stdout.replace("[0]", "[1]"))
    done = run("schedule", "cost", "all_reduce", "--file", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert "these schedules are no all_reduce: rank" in done.stderr


@pytest.mark.parametrize(
    "arguments, why",
    [
        (["--sizes", ","], "--sizes , names none; write 8,4K,64M"),
        (["-b", "0"], "begin with 1 or more"),
        (["--hosts", "3"], "--hosts 3 places 3 ranks, and the text is of 2 ranks"),
        (["--hosts", "2x8"], "--hosts 2x8 places 16 ranks, and the text is of 2 ranks"),
    ],
)
def test_what_cannot_be_costed_is_refused(arguments, why, tmp_path):
    file = tmp_path / "ring.txt"
    file.write_text(run("schedule", "show", "all_reduce", "ring", "--ranks", "2").stdout)
    done = run(
        "schedule", "cost", "all_reduce", "--file", str(file), "--parameters", "default", *arguments
    )
    assert (done.returncode, done.stdout) == (2, "") and why in done.stderr


def test_the_bytes_that_times_are_of_are_told():
    """Sizes are rounded down, as the choice does it."""
    rows = costs("all_reduce", "ring", "--ranks", "4", "--sizes", "1000,1024,1025")["rows"]
    assert [(row["bytes"], row["priced_bytes"]) for row in rows] == [
        (1000, 960),
        (1024, 1024),
        (1025, 1024),
    ]
    (of_blocks,) = costs("all_gather", "ring", "--ranks", "3", "--sizes", "1003")["rows"]
    for collective, ranks in (("all_reduce", "4"), ("all_gather", "3")):
        place = [collective, "1003", "--ranks", ranks, "--parameters", "default", "--json"]
        explained = json.loads(run("explain", *place).stdout)
        assert (explained["priced_bytes"], of_blocks["priced_bytes"]) == (960, 960)

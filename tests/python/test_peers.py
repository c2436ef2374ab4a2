"""The benches that compare with MPI and gloo: their conclusions, and one short run of each."""

import json
import subprocess
import sys
import xml.etree.ElementTree

import ddp_report
import network_report
import pytest
from peers_report import (
    Results,
    comparison,
    limits,
    markdown,
    number,
    picture,
    size_name,
    verdict,
    verdicts,
)
from processes import PATIENCE_S, ROOT
from ringwood_command import BINARY, environment
from rounds import machine_line

MACHINE = {
    "processor": "a processor",
    "cores": 2,
    "kernel": "6.1",
    "versions": {"ringwood": "0.1.0", "mpich": ""},
    "load_average": {"before": 0.1, "after": 0.2},
    "foreign_load": {"mean": 0.0, "most": 0.01},
}
SETTINGS = {"date": "2026-01-01", "rounds": 2, "seconds": 9, "failures": ["mpich, 2 ranks: why"]}


def test_the_line_of_the_machine_has_no_empty_part():
    line = machine_line(MACHINE, SETTINGS)
    assert line.startswith("a processor, 2 cores, Linux 6.1; ringwood 0.1.0; 2026-01-01, 2 inter")
    line = machine_line(MACHINE | {"versions": {"mpich": ""}}, SETTINGS)
    assert line.startswith("a processor, 2 cores, Linux 6.1; 2026-01-01, 2 inter")


def peers(*arguments, **more: str) -> subprocess.CompletedProcess:
    command = [sys.executable, ROOT / "bench" / "peers", *arguments]
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment(**more),
    )


def rounds(**times: list) -> dict:
    """At 8 B and 1 KiB: contestant -> [(best, median) of each round] for each size."""
    return {
        (2, "plain", name.replace("_", "-"), size): values
        for name, by_size in times.items()
        for size, values in zip((8, 1024), by_size, strict=True)
    }


RESULTS = Results(
    rounds(
        limit=[[(0.1, 0.1)], [(0.5, 0.5)]],
        ringwood=[[(0.5, 0.6), (0.4, 1.0)], [(2.0, 2.0)]],
        openmpi=[[(0.8, 0.9)], [(1.0, 1.0)]],
        mpich=[[(1.2, 1.3)], [(4.0, 4.0)]],
        torch_ringwood=[[(10.0, 12.0)], [(20.0, 20.0)]],
        torch_gloo=[[(300.0, 400.0)], [(400.0, 500.0)]],
    )
)


def test_ratios_compare_like_with_like():
    row = comparison(RESULTS, 2, "plain", 8)
    assert row["best_peer_over_ringwood_best"] == pytest.approx(0.8 / 0.4)  # the best of all rounds
    assert row["best_peer_over_ringwood_median"] == pytest.approx(0.9 / 0.8)  # median of medians
    assert row["gloo_over_ringwood_best"] == pytest.approx(300 / 10)
    assert row["limit_over_ringwood_best"] == pytest.approx(0.1 / 0.4)


def test_a_size_at_which_we_are_slower_is_named():
    rows = [comparison(RESULTS, 2, "plain", size) for size in (8, 1024)]
    assert "not slower at any size than gloo" in verdict(rows, 2, "plain", "gloo")
    text = verdict(rows, 2, "plain", "best_peer")
    assert "slower at 1 KiB than the best peer" in text
    assert "least 0.500x" in text
    assert verdict(rows, 4, "plain", "gloo") == "4 ranks, plain, staged: not compared with gloo."


def test_zero_copy_is_compared_apart_and_with_the_best_of_all_peers():
    results = Results(
        rounds(
            limit=[[(0.1, 0.1)], [(0.5, 0.5)]],
            ringwood=[[(0.5, 0.5)], [(2.0, 2.0)]],
            ringwood_shared=[[(0.4, 0.5)], [(1.0, 2.0)]],
            openmpi=[[(0.8, 0.8)], [(4.0, 4.0)]],
            openmpi5=[[(0.6, 0.9)], [(4.0, 4.0)]],
            mpich5=[[(1.0, 1.0)], [(3.5, 5.0)]],
            intelmpi=[[(0.9, 0.7)], [(3.2, 5.0)]],
            oneccl=[[(5.0, 6.0)], [(3.0, 5.0)]],
        )
    )
    rows = [comparison(results, 2, "plain", size) for size in (8, 1024)]
    assert [row["best_peer_over_ringwood_best"] for row in rows] == [1.2, 1.5]
    assert [row["best_peer_over_ringwood_shared_best"] for row in rows] == [1.5, 3.0]
    assert [row["best_peer_over_ringwood_shared_median"] for row in rows] == [1.4, 2.0]
    assert [row["limit_over_ringwood_shared_best"] for row in rows] == [0.25, 0.5]
    assert rows[0]["gloo_over_ringwood_shared_best"] is None
    assert [text[: text.index("(")] for text in verdicts(results, rows)] == [
        "2 ranks, plain, staged: not slower at any size than the best peer ",
        "2 ranks, plain, zero copy: not slower at any size than the best peer ",
    ]
    lines = markdown(MACHINE, SETTINGS, results, []).splitlines()
    head, row = (next(x for x in lines if x.startswith(f"| {w} |")) for w in ("size", "1 KiB"))
    cells = dict(zip(head.strip("| ").split(" | "), row.strip("| ").split(" | "), strict=True))
    assert cells["oneCCL"] == "3.00 (5.00)"
    assert "best in torch / staged" not in cells  # none of the ops took part
    assert (cells["best peer / staged"], cells["best peer / zero copy"]) == ("1.50x", "3.00x")
    assert (cells["limit / staged"], cells["limit / zero copy"]) == ("25%", "50%")


def test_the_best_in_torch_is_of_gloo_and_the_ops():
    results = Results(
        rounds(
            torch_ringwood=[[(4.0, 5.0)], [(6.0, 6.0)]],
            torch_ringwood_shared=[[(4.0, 5.0)], [(2.0, 3.0)]],
            torch_gloo=[[(100.0, 100.0)], [(9.0, 90.0)]],
            torch_vllm=[[(2.0, 2.5)], [(30.0, 30.0)]],
            torch_deepspeed=[[(3.0, 2.0)], [(18.0, 20.0)]],
        )
    )
    rows = [comparison(results, 2, "plain", size) for size in (8, 1024)]
    assert [row["best_in_torch_over_ringwood_best"] for row in rows] == [0.5, 1.5]
    assert [row["best_in_torch_over_ringwood_median"] for row in rows] == [0.4, 3.3333]
    assert [row["best_in_torch_over_ringwood_shared_best"] for row in rows] == [0.5, 4.5]
    assert [row["gloo_over_ringwood_best"] for row in rows] == [25.0, 1.5]
    assert [text[: text.index(" (")] for text in verdicts(results, rows)] == [
        "2 ranks, plain, staged: not slower at any size than gloo",
        "2 ranks, plain, staged: slower at 8 B than the best peer in torch",
        "2 ranks, plain, zero copy: not slower at any size than gloo",
        "2 ranks, plain, zero copy: slower at 8 B than the best peer in torch",
    ]
    lines = markdown(MACHINE, SETTINGS, results, []).splitlines()
    head = next(line for line in lines if line.startswith("| size |"))
    assert "| vLLM's op in torch | DeepSpeed's op in torch |" in head
    assert "| best in torch / staged | best in torch / zero copy |" in head


def test_limits_in_words():
    assert limits(RESULTS) == []
    measured = {
        (2, "barrier", "limit", 0): [(0.2, 0.2)],
        (2, "memcpy", "limit", 1 << 20): [(50.0, 60.0)],
        (2, "plain", "limit", 1 << 20): [(100.0, 110.0)],
    }
    assert limits(Results(measured)) == [
        "all 2 ranks at once, 1 MiB: memcpy 10.5 GB/s, reading and writing shared sums 21.0 GB/s "
        "per rank; a barrier 0.200 us."
    ]


def test_markdown_and_picture():
    text = markdown(MACHINE, SETTINGS, RESULTS, ["a verdict"])
    row = next(line for line in text.splitlines() if line.startswith("| 1 KiB |"))
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        *("1 KiB", "0.500 (0.500)", "2.00 (2.00)", "1.00 (1.00)", "4.00 (4.00)"),
        *("20.0 (20.0)", "400 (500)", "0.500x", "20.0x", "25%"),
    ]
    assert "Failed: mpich, 2 ranks: why" in text
    assert "ringwood 0.1.0; 2026-01-01" in text
    tree = xml.etree.ElementTree.fromstring(picture(RESULTS))
    lines = tree.findall(".//{http://www.w3.org/2000/svg}polyline")
    assert [len(line.get("points").split()) for line in lines] == [2] * 6


def test_the_table_of_the_document_is_that_of_the_kept_figures():
    command = [sys.executable, ROOT / "bench" / "readme_table"]
    rows = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert len(rows) == 8
    document = (ROOT / "README.md").read_text().splitlines()
    assert [row for row in rows if row not in document] == [], "bench/readme_table prints it anew"


def test_the_kept_report_is_that_of_the_kept_figures():
    folder = ROOT / "bench" / "results"
    kept = json.loads((folder / "peers.json").read_text())
    rounds = {
        (row["ranks"], row["mode"], row["contestant"], row["bytes"]): row["rounds"]
        for row in kept["rows"]
    }
    results = Results(rounds)
    text = markdown(kept["machine"], kept["settings"], results, kept["verdicts"])
    assert text == (folder / "peers.md").read_text()
    assert picture(results) == (folder / "peers.svg").read_text()


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0123, "0.0123"), (1.5, "1.50"), (99.4, "99.4"), (12345, "12,345")]
)
def test_three_digits(value, shown):
    assert number(value) == shown


@pytest.mark.parametrize(
    ("size", "name"), [(8, "8 B"), (1536, "1536 B"), (65536, "64 KiB"), (1 << 20, "1 MiB")]
)
def test_size_names(size, name):
    assert size_name(size) == name


def test_a_contestant_that_nobody_knows():
    done = peers("--only", "ringwood,openmi")
    assert done.returncode == 2
    assert "no contestant is named openmi; there are limit, ringwood, " in done.stderr


def test_a_short_run(tmp_path):
    (tmp_path / "build" / "tools").mkdir(parents=True)
    (tmp_path / "build" / "tools" / "ringwood").symlink_to(BINARY.resolve())
    done = peers(
        *("--rounds", "1", "--ranks", "2", "--modes", "plain,touched", "--sizes", "8,4096"),
        *("--only", "ringwood,ringwood-shared,limit"),
        *("--build", tmp_path / "build", "--output", tmp_path / "results"),
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "results" / "peers.json").read_text())
    measured = {(row["mode"], row["contestant"], row["bytes"]) for row in report["rows"]}
    assert measured == {
        *(
            (m, c, s)
            for m in ("plain", "touched")
            for c in ("ringwood", "ringwood-shared", "limit")
            for s in (8, 4096)
        ),
        ("barrier", "limit", 0),
        ("memcpy", "limit", 4096),
    }
    assert all(0 < row["best_us"] <= row["median_us"] for row in report["rows"])
    assert (tmp_path / "results" / "peers.md").read_text() in done.stdout
    assert (tmp_path / "results" / "peers.svg").exists()


def steps(**seconds: list[float]) -> list[dict[str, list[float]]]:
    """One round of one backend."""
    return [seconds]


def test_exposed_is_what_a_step_takes_longer_than_its_computation():
    told = {
        "ringwood": ddp_report.condense(
            steps(step=[0.11, 0.22, 0.13], computation=[0.1, 0.2, 0.1], communication=[0.02] * 3)
            + steps(step=[0.12] * 3, computation=[0.09] * 3, communication=[0.04] * 3)
        ),
        "gloo": ddp_report.condense(
            steps(step=[0.3] * 3, computation=[0.1] * 3, communication=[0.1] * 3)
        ),
    }
    ours = told["ringwood"]
    assert ours["step"] == pytest.approx({"best_ms": 110, "median_ms": 125})
    # Best: 110 - 90. Median: of 10, 20 and 30 in the first round, 30 in the second.
    assert ours["exposed"] == pytest.approx({"best_ms": 20, "median_ms": 25})
    assert ddp_report.ratios(told)["exposed"] == pytest.approx({"best": 10, "median": 8})
    assert ddp_report.ratios(told)["communication"] == pytest.approx({"best": 5, "median": 3.333})
    last = ddp_report.table(told).splitlines()[-1]
    assert last.endswith("| 10.00x (8.00x) | 5.00x (3.33x) |")


def test_communication_that_is_hidden_has_no_ratio():
    hidden = ddp_report.condense(steps(step=[0.1], computation=[0.1], communication=[0.01]))
    exposed = ddp_report.condense(steps(step=[0.2], computation=[0.1], communication=[0.05]))
    told = {"ringwood": hidden, "gloo": exposed}
    assert ddp_report.ratios(told)["exposed"] == {"best": None, "median": None}
    assert "hidden (hidden)" in ddp_report.table(told)


def test_a_short_run_of_ddp(tmp_path):
    out = tmp_path / "ddp.json"
    command = [sys.executable, ROOT / "bench" / "ddp", "--python", sys.executable, "--json", out]
    options = ["--backends", "gloo", "--rounds", "1", "--steps", "1"]
    done = subprocess.run(
        [str(word) for word in [*command, *options]],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    assert 25e6 < report["settings"]["parameters"] < 26e6
    assert {kind: len(times) for kind, times in report["seconds"]["gloo"][0].items()} == {
        "step": 1,
        "computation": 1,
        "communication": 1,
    }
    assert report["times"]["gloo"]["step"]["best_ms"] > 0
    assert "| gloo |" in done.stdout


def test_networks_are_compared_by_rate_and_ratio():
    rounds = network_report.Rounds(
        {
            ("gigabit", "iperf3", 1 << 20): [
                {"best_us": 8800.0, "median_us": 8800.0},
                {"best_us": 8400.0, "median_us": 8400.0},
            ],
            ("gigabit", "ringwood", 1 << 22): [
                {"best_us": 33600.0, "median_us": 40000.0, "cpu_percent": 90.0}
            ],
            ("gigabit", "ringwood-sleeping", 1 << 22): [
                {"best_us": 35000.0, "median_us": 36000.0, "cpu_percent": share}
                for share in (10.0, 14.0)
            ],
            ("gigabit", "torch-ringwood", 1 << 22): [{"best_us": 34000.0, "median_us": 35000.0}],
            ("gigabit", "torch-gloo", 1 << 22): [{"best_us": 68000.0, "median_us": 105000.0}],
        }
    )
    row = network_report.comparison(rounds, "gigabit", 1 << 22)
    assert row["gloo_over_ringwood_best"] == pytest.approx(2.0)
    assert row["gloo_over_ringwood_median"] == pytest.approx(3.0)
    assert row["openmpi_over_ringwood_best"] is None
    assert row["rate_over_iperf3"] == pytest.approx(1.0)  # of its best round
    assert row["cpu_percent_ringwood_sleeping"] == 12.0
    text = network_report.markdown(MACHINE, SETTINGS, rounds)
    assert "iperf3 --bidir: 0.999 Gbit/s each way." in text
    line = next(line for line in text.splitlines() if line.startswith("| 4 MiB |"))
    assert [cell.strip() for cell in line.strip("|").split("|")][-3:] == [
        "2.00x",
        "100%",
        "90% / 12%",
    ]

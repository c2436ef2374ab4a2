"""Parsers of other projects read `ringwood perf --format nccl-tests`.

What each of them looks for, and where, is written down here anew; its name and file stand above.
"""

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from ringwood_command import run

PLACES = ("out_of_place", "in_place")
Figures = dict[tuple[int, str], tuple[float, float, float]]  # time, algbw and busbw


@dataclass
class Measured:
    text: str
    report: dict  # of -J

    def figures(self) -> Figures:
        return {
            (line["size"], place): (
                shown(line[place]["time"], 7),
                shown(line[place]["alg_bw"], 6),
                shown(line[place]["bus_bw"], 6),
            )
            for line in self.report["results"]
            for place in PLACES
        }


def shown(value: float, width: int) -> float:
    """As the table has it: with two decimals, or as many as there is room for."""
    texts = (f"{value:.{decimals}f}" for decimals in (2, 1, 0))
    return float(next(text for text in texts if len(text) <= width))


def measure(folder: Path, *more: str) -> Measured:
    file = folder / "out.json"
    sweep = ["-b", "1M", "-e", "4M", "-f", "2", "-g", "2", "-n", "5", "-w", "1", "-c", "1"]
    done = run("perf", "all_reduce", "--format", "nccl-tests", *sweep, "-J", str(file), *more)
    assert (done.returncode, done.stderr) == (0, "")
    return Measured(done.stdout, json.loads(file.read_text()))


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Measured:
    return measure(tmp_path_factory.mktemp("nccl"))


@pytest.fixture(scope="module")
def per_iteration(tmp_path_factory) -> Measured:
    return measure(tmp_path_factory.mktemp("nccl"), "-I", "1")


# microsoft/superbenchmark: superbench/benchmarks/micro_benchmarks/cuda_nccl_bw_performance.py
def superbenchmark(text: str) -> Figures:
    """Columns are where the head names them, counted from the right end."""
    body = text[text.rindex("out-of-place") : text.rindex("Out of bounds values")]
    lines = [line.strip("# ").split() for line in body.splitlines()[1:]]
    head = next(words for words in lines if {"time", "busbw"} <= set(words))
    columns = [
        [i - len(head) for i, name in enumerate(head) if name == wanted]
        for wanted in ("time", "algbw", "busbw")
    ]
    return {
        (int(words[head.index("size")]), place): tuple(float(words[at[side]]) for at in columns)
        for words in lines
        if words and words[0].isdigit()
        for side, place in zip((0, -1), PLACES, strict=True)
    }


# awslabs/awsome-distributed-training: micro-benchmarks/nccl-tests/nccl_to_csv.py
def nccl_to_csv(text: str) -> Figures:
    """All fields of a line, each as its kind: few types and operations, numbers without exponents,
    and of errors a number or N/A."""
    side = 3 * r"\s+(\d+\.?\d*)" + r"\s+(?:\d+|N/A)"
    kinds = r"(?:float|double|int|half)\s+(?:sum|prod|max|min|none)\s+-?\d+"
    line = re.compile(rf"^\s*(\d+)\s+\d+\s+{kinds}{side}{side}", re.M)
    found = [[float(word) for word in match.groups()] for match in line.finditer(text)]
    return {
        (int(words[0]), place): tuple(words[first : first + 3])
        for words in found
        for first, place in zip((1, 4), PLACES, strict=True)
    }


# NVIDIA/cloudai: src/cloudai/workloads/nccl_test/performance_report_generation_strategy.py, and
# report_generation_strategy.py for the head
def cloudai(text: str) -> Figures:
    """Lines that begin with a digit and have 13 words, under a head with these words in a row."""
    head = "size count type redop root" + 2 * " time algbw busbw #wrong"
    assert re.search(r"\b" + head.replace(" ", r"\s+") + r"\b", text)
    rows = [line.split() for line in text.splitlines() if line.strip()[:1].isdigit()]
    return {
        (int(words[0]), place): tuple(float(word) for word in words[first : first + 3])
        for words in rows
        if len(words) == 13
        for first, place in zip((5, 9), PLACES, strict=True)
    }


@pytest.mark.parametrize("parser", [superbenchmark, nccl_to_csv, cloudai])
def test_lines_of_the_table(parser, measured):
    found = parser(measured.text)
    assert found == measured.figures()
    assert sorted({size for size, _ in found}) == [1 << 20, 2 << 20, 4 << 20]


# As above.
def average_of_nccl_to_csv(text: str) -> float:
    return float(re.search(r"# Avg bus bandwidth\s*:\s*(\d+\.?\d*)", text)[1])


# Azure/azurehpc-health-checks: customTests/azure_nccl_allreduce.nhc
def azure(text: str) -> float:
    """The sixth word of the first line about any bandwidth; FAILED nowhere before it."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if "bandwidth" in line)
    assert "FAILED" not in "".join(lines[: at + 1])
    return float(lines[at].split()[5])


# eth-cscs/cscs-reframe-tests: checks/microbenchmarks/xccl/xccl_tests.py
def cscs(text: str) -> float:
    assert re.search(r"Out of bounds values\s*:\s*0\s*OK", text)
    return float(re.search(r"Avg bus bandwidth\s*:\s*(\S+)", text)[1])


@pytest.mark.parametrize("parser", [average_of_nccl_to_csv, azure, cscs])
def test_the_average_in_the_foot(parser, measured):
    average = measured.report["average_bus_bandwidth"]["bandwidth"]
    assert parser(measured.text) == float(f"{average:g}")
    each = [line[place]["bus_bw"] for line in measured.report["results"] for place in PLACES]
    assert average == pytest.approx(sum(each) / len(each))


# NVIDIA/nccl-tests: tools/analyze_perf_json.py
@pytest.mark.parametrize("place", PLACES)
def test_single_iterations_in_json(place, per_iteration):
    """It reads of -J with -I 1 the times of each rank, and ranks of a host by its name."""
    report = per_iteration.report
    assert (report["version"], report["config"]["iterations"]) == (3, 5)
    assert len({device["hostname"] for device in report["config"]["devices"]}) == 1
    rows = [line.split() for line in per_iteration.text.splitlines() if line[:1] == " "]
    for line, words in zip(report["results"], rows, strict=True):
        each = line[f"{place}_per_iter"]
        ranks = each["per_process_max_times_us"]
        times = [max(column) for column in zip(*ranks, strict=True)]
        assert (len(ranks), len(times)) == (2, 5)
        assert each["times_us"] == pytest.approx(times, abs=0.001)
        mean = sum(times) / 5
        assert each["avg_us"] == pytest.approx(mean)
        spread = math.sqrt(sum((time - mean) ** 2 for time in times) / 5)
        assert each["cv_pct"] == pytest.approx(100 * spread / mean)
        # The columns beside them: i_min, i_max, i_p99, i_cv%.
        figures = [each[key] for key in ("min_us", "max_us", "p99_us", "cv_pct")]
        assert figures[:3] == pytest.approx([min(times), max(times), max(times)])
        first = 5 + (8 if place == "in_place" else 0) + 4
        assert [float(word) for word in words[first : first + 4]] == [
            shown(figure, 7) for figure in figures
        ]
        # The mean over ranks is the time of the line, but for what is between two iterations.
        assert sum(map(sum, ranks)) / 10 <= line[place]["time"] * 1.001


def test_heads_tell_columns_where_there_are_more(per_iteration):
    assert superbenchmark(per_iteration.text) == per_iteration.figures()

"""`ringwood perf --html`: a report that opens in Chromium without a network, and its plots show."""

import json
import re

import pytest
from chromium import (
    assert_readable,
    assert_self_contained,
    coloured_pixels,
    document_of,
    layouts,
)
from ringwood_command import run

GREY = 9  # of limits
RATES = ("alone_bytes_per_s", "pairs_bytes_per_s", "all_bytes_per_s")
MATRIX = {"hosts": ["a", "b"], "ranks": [1, 1], "rail_by_rail": None, "slow": []}
MATRIX |= {"machine": "", "hosts_on_the_same_cores": 1, "seconds": 1}
QUICK = ["-b", "1K", "-e", "64K", "-f", "4", "-n", "2", "--batches", "2", "-w", "1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With a report, its JSON, and three files of earlier results that it shows."""
    folder = tmp_path_factory.mktemp("html")
    earlier = ["perf", "all_reduce", "--json", str(folder / "earlier.json"), *QUICK]
    assert run(*earlier).returncode == 0
    theirs = ["perf", "all_reduce", "--format", "nccl-tests", "-J", str(folder / "nccl.json")]
    assert run(*theirs, "-b", "1K", "-e", "64K", "-f", "4", "-n", "2").returncode == 0
    row = {"ranks": 2, "mode": "plain", "contestant": "</script><b>MPI", "bytes": 4096}
    rows = [row | {"best_us": 5, "median_us": 6}, row | {"ranks": 4, "best_us": 1, "median_us": 1}]
    (folder / "peers.json").write_text(json.dumps({"machine": {}, "rows": rows}))
    done = run(
        *("perf", "all_reduce", "--html", str(folder / "report.html")),
        *("--json", str(folder / "now.json"), "--compare", str(folder / "earlier.json")),
        *("--compare", f"NCCL 2.28={folder / 'nccl.json'}"),
        *("--compare", str(folder / "peers.json"), *QUICK),
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def plots_of(page: str) -> dict[str, dict]:
    data = re.search(r"<script type=application/json id=plots>(.*?)</script>", page, re.DOTALL)
    return {plot["title"]: plot for plot in json.loads(data[1])}


def test_plots_have_what_was_measured_beside_predictions_limits_and_others(folder):
    page = (folder / "report.html").read_text()
    assert_self_contained(page)
    plots = plots_of(page)
    assert list(plots) == [
        *("Bus bandwidth by size", "Time by size", "Arrival skew by size", "Memory copies")
    ]
    bandwidth = {line["name"]: line for line in plots["Bus bandwidth by size"]["series"]}
    assert set(bandwidth) == {
        *("ringwood", "predicted", "physical limit", "NCCL 2.28", "</script><b>MPI", "earlier")
    }
    rows = json.loads((folder / "now.json").read_text())["rows"]
    sizes = [1024, 4096, 16384, 65536]
    assert bandwidth["ringwood"]["x"] == sizes
    assert bandwidth["ringwood"]["y"] == pytest.approx([row["busbw_gbs"] for row in rows])
    assert [line["dashed"] for line in bandwidth.values()] == [False] + 5 * [True]
    assert bandwidth["predicted"]["y"] == pytest.approx(
        [row["bytes"] / row["predicted_us"] / 1e3 for row in rows]
    )
    assert bandwidth["physical limit"]["y"][:2] == [None, None]  # times there are latencies
    assert bandwidth["physical limit"]["y"][3] == pytest.approx(
        rows[3]["bytes"] / rows[3]["limit_us"] / 1e3
    )
    assert bandwidth["</script><b>MPI"]["x"] == [4096]  # of as many ranks
    times = {line["name"]: line for line in plots["Time by size"]["series"]}
    assert times["</script><b>MPI"]["y"] == [6]
    assert times["ringwood"]["y"] == pytest.approx([row["time_us_median"] for row in rows])


def test_the_page_says_what_was_measured_where(folder):
    page = (folder / "report.html").read_text()
    assert "<h1>all_reduce</h1>" in page
    assert "<p class=subtitle>2 ranks on 1 host</p>" in page
    assert "Every result was right. all_reduce reaches" in page
    for fact in ("date", "hosts", "processor", "transports", "command"):
        assert f"<dt>{fact}</dt><dd>" in page
    # What to look at first, the collective, counters, the limit.
    assert page.count("<h2>") == 4
    assert "<h2>What to look at first</h2>" in page
    assert "Time of each rank, beside the mean of all" in page
    assert page.count("<th scope=row>") == 4


def test_what_is_faster_is_told_first(tmp_path):
    point = {"collective": "all_reduce", "ranks": 2, "dtype": "float32", "op": "sum", "root": -1}
    point |= {"time_us_median": 1e-3, "busbw_gbs": 1}
    rows = [point | {"bytes": size} for size in (1024, 65536)]
    (tmp_path / "light.json").write_text(json.dumps({"rows": rows}))
    page = tmp_path / "page.html"
    words = ["--html", str(page), "--compare", f"<i>={tmp_path / 'light.json'}"]
    assert run("perf", "all_reduce", *QUICK, *words).returncode == 0
    head, *sections = page.read_text().split("<h2>")
    assert 'class="note good"' not in head and "all_reduce reaches" in head
    assert re.search(
        r'<p class="note warning">all_reduce, float32, sum, at 2 of 2 sizes from 1 KiB to 64 KiB, '
        r"most at \d+ KiB: &lt;i&gt; takes 0.001 µs, and this run .* times as long: ringwood perf "
        r"all_reduce --sizes 1K,64K --ranks 2 --algorithm all tells",
        sections[0],
    )


def test_it_opens_without_a_network_and_its_plots_show(folder, tmp_path):
    pixels = coloured_pixels(document_of(folder / "report.html", tmp_path))
    assert len(pixels) == 4
    assert min(pixels) > 200, pixels


def test_all_algorithms_are_compared(tmp_path):
    file = tmp_path / "all.html"
    done = run("perf", "all_reduce", "--ranks", "3", "--algorithm", "all", "--sizes", "4K,64K",
               "-n", "2", "--batches", "2", "--html", str(file))  # fmt: skip
    assert done.returncode == 0, done.stderr
    page = file.read_text()
    series = plots_of(page)["Bus bandwidth by size"]["series"]
    lines = {line["name"]: line for line in series}
    for name in ("ring", "direct"):
        assert lines[f"{name}, predicted"]["hidden"] and not lines[name]["hidden"]
    # First and thick, what a program would get.
    assert series[0]["name"] == "the choice"
    assert [line["name"] for line in series if line["strong"]] == ["the choice"]
    assert not lines["the choice, predicted"]["hidden"]
    assert series[0]["x"] == [4096, 65536]
    for special in (lambda line: line["colour"] == GREY, lambda line: line["off_scale"]):
        assert [line["name"] for line in series if special(line)] == ["physical limit"]
    assert re.search(r"The choice: \w+( up to 4 KiB, then \w+)?\.", page)


def test_earlier_results_are_of_the_same_ranks_types_and_operations(tmp_path):
    point = {"collective": "all_reduce", "bytes": 4096, "time_us_median": 5, "busbw_gbs": 1}
    rows = [
        point | {"ranks": 2, "dtype": "float32", "op": "sum", "root": -1},
        point | {"ranks": 2, "dtype": "float32", "op": "max", "time_us_median": 1},
        point | {"ranks": 64, "dtype": "float32", "op": "sum", "time_us_median": 1},
    ]
    files = {"some": rows, "many": rows[2:], "max": rows[1:]}
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"rows": content}))
    words = ["perf", "all_reduce", *QUICK, "--html", str(tmp_path / "page.html")]
    done = run(*words, "--compare", str(tmp_path / "many.json"))
    assert done.returncode == 2
    assert "many.json: it was measured with 64 ranks, and this run has 2" in done.stderr
    compared = [f"--compare={tmp_path / name}.json" for name in ("some", "max")]
    assert run(*words, *compared).returncode == 0
    page = (tmp_path / "page.html").read_text()
    times = {line["name"]: line for line in plots_of(page)["Time by size"]["series"]}
    assert (times["some"]["y"], "max" in times) == ([5], False)
    assert "max has none of the collectives, types and operations of this run." in page


def test_the_matrix_of_pairs_is_part_of_the_page(tmp_path):
    page, matrix = tmp_path / "page.html", tmp_path / "matrix.json"
    words = ["perf", "all_reduce", *QUICK, "--html", str(page), "--matrix", str(matrix)]
    matrix.write_text("{}")
    assert run(*words).returncode == 2
    one = [[0, 5e7], [6e7, 0]]
    rail = {"rail": "", "transport": "tcp", "latency_s": [[0, 1e-5], [1e-5, 0]]}
    matrix.write_text(json.dumps(MATRIX | {"rails": [rail | dict.fromkeys(RATES, one)]}))
    done = run(*words)
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert_self_contained(text)
    assert "<h2>Pairs of hosts</h2>" in text
    assert "Rate of each pair alone" in text


def test_names_and_tables_fit_a_telephone(tmp_path):
    """With many sizes, many lines with long names, and a matrix of hosts with long names."""
    page, matrix = tmp_path / "page.html", tmp_path / "matrix.json"
    count = 12
    hosts = [f"gpu-node-{host:04}.cluster.example.com" for host in range(count)]
    rates = [[1e9 * (a != b) for b in range(count)] for a in range(count)]
    rail = {"rail": "", "transport": "tcp", "latency_s": rates} | dict.fromkeys(RATES, rates)
    of = MATRIX | {"hosts": hosts, "ranks": [1] * count, "rails": [rail]}
    matrix.write_text(json.dumps(of))
    words = ["--algorithm", "all", "--sizes", "8,64K,16M", "-n", "1", "--batches", "2", "-w", "1"]
    done = run("perf", "all_reduce", *words, "--html", str(page), "--matrix", str(matrix))
    assert done.returncode == 0, done.stderr
    for layout in layouts(page, tmp_path, 420, 1200):
        assert len(layout["plots"]) == 4 and len(layout["scrolling"]) > 5
        assert_readable(layout)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("[1, 2]", "is not a JSON object"),
        ('{"rows": [{"bytes": "many"}]}', "neither ringwood perf, nccl-tests nor bench/peers"),
        ('{"results": [], "args": ["ls"]}', "does not say which collective"),
        ('{"results": [], "args": ["all_reduce_perf"]}', "neither ringwood perf, nccl-tests nor"),
    ],
)
def test_strange_files_are_refused_before_anything_is_measured(tmp_path, content, why):
    strange = tmp_path / "strange.json"
    strange.write_text(content)
    page = tmp_path / "page.html"
    done = run("perf", "all_reduce", "--html", str(page), "--compare", str(strange))
    assert done.returncode == 2
    assert why in done.stderr
    assert (done.stdout, page.exists()) == ("", False)


def test_a_folder_that_is_not_there():
    done = run("perf", "all_reduce", "--html", "/nowhere/page.html")
    assert done.returncode == 2
    assert "--html: /nowhere is not a folder that can be written to" in done.stderr

"""`ringwood simulate`: rows on healthy and faulty networks, and its JSON."""

import json
import re
from xml.etree import ElementTree

import pytest
from ringwood_command import complaints, run, run_measured

SMALL = ["--hosts", "8", "--ranks-per-host", "4", "--parameters", "default"]
LEAVES = ["--rails", "2", "--leaf", "2", "--uplinks", "2"]


def simulated(*arguments: str) -> dict:
    done = run("simulate", *arguments, "--json")
    assert (done.returncode, complaints(done)) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.parametrize("collective", ["all_reduce", "broadcast", "all_to_all", "barrier"])
def test_rows_have_times_and_bandwidths(collective):
    report = simulated(collective, "1M", *SMALL)
    assert report["ranks"] == 32
    assert [row["chosen"] for row in report["rows"]].count(True) == 1
    for row in report["rows"]:
        assert row["why_not"] == "" and row["time_us"] > 0
        if collective != "barrier":
            assert row["algbw_gbs"] == pytest.approx(2**20 / row["time_us"] / 1e3)
        if collective == "all_reduce":
            assert row["busbw_gbs"] == pytest.approx(row["algbw_gbs"] * 2 * 31 / 32)
    fastest = min(report["rows"], key=lambda row: row["time_us"])
    assert report["best"] == fastest["algorithm"]


def test_all_rows_or_one():
    every = {row["algorithm"] for row in simulated("all_reduce", "1M", *SMALL, "-a", "all")["rows"]}
    sensible = {row["algorithm"] for row in simulated("all_reduce", "1M", *SMALL)["rows"]}
    assert sensible < every and {"ring", "direct", "hierarchical"} <= every
    (row,) = simulated("all_reduce", "1M", *SMALL, "-a", "swing")["rows"]
    assert row["algorithm"] == "swing"


def test_a_single_rank_sends_nothing():
    report = simulated("all_reduce", "1M", "--hosts", "1", "--ranks-per-host", "1")
    assert report["advice"] == "a single rank sends nothing"


def test_a_single_rank_can_be_late():
    done = run("simulate", "all_reduce", "1M", "--ranks", "1", "--late", "rank0=5ms")
    (chosen,) = [line.split() for line in done.stdout.splitlines() if line.startswith("*")]
    assert chosen[-5:] == ["5000.0", "0.21", "0.00", "-", "latency"]
    assert "1 rank on 1 host" in done.stdout


def test_a_fault_costs_and_another_row_is_named():
    place = ["all_reduce", "64M", *SMALL, *LEAVES, "-a", "all"]
    healthy = {row["algorithm"]: row for row in simulated(*place)["rows"]}
    report = simulated(*place, "--dead", "host3/rail1")
    assert report["faults"] == ["dead host3/rail1"]
    for row in report["rows"]:
        assert row["time_us"] == healthy[row["algorithm"]]["time_us"]
        assert row["time_us_with_faults"] > row["time_us"] * 0.9
    assert sum(row["time_us_with_faults"] > row["time_us"] * 1.1 for row in report["rows"]) > 5
    links = [use["link"] for use in report["details"]["busiest_links"]]
    assert any(link.startswith("host3/rail0") for link in links[:2])
    assert not any(link.startswith("host3/rail1") for link in links)
    assert report["advice"].startswith("the faults cost ")


@pytest.mark.parametrize(
    "fault",
    [
        ["--slow", "host3/rail0=0.25"],
        ["--slow", "host3=0.25"],
        ["--slow", "host3/out=0.25"],
        ["--slow", "host3/rail1/in=0.25"],
        ["--slow-link", "host2-host3=0.25"],
        ["--slow-rank", "rank5=0.01"],
        ["--late", "rank5=20ms"],
        ["--dead-uplink", "leaf1/0", "--dead-uplink", "leaf1/rail1/0-0"],
    ],
)
def test_each_fault_costs_something(fault):
    report = simulated("all_reduce", "16M", *SMALL, *LEAVES, "-a", "halving_doubling", *fault)
    (row,) = report["rows"]
    assert row["time_us_with_faults"] > row["time_us"] * 1.01
    if fault[0] == "--late":
        assert row["time_us_with_faults"] > 20e3


def test_the_row_for_a_known_slow_port_is_among_the_others():
    place = ["all_reduce", "1M", "--hosts", "4x2", "--slow", "host3=0.5", "--parameters", "default"]
    told = json.loads(run("explain", *place, "--json").stdout)
    (known,) = [row for row in told["candidates"] if row["chosen"]]
    rows = {(row["algorithm"], row["segments"]): row for row in simulated(*place)["rows"]}
    row = rows[known["algorithm"], known["segments"]]
    assert row["time_us_with_faults"] == min(r["time_us_with_faults"] for r in rows.values())
    assert not row["chosen"], "without the fault it is chosen as well: take another case"


@pytest.mark.parametrize("size", ["1M", "16M", "64M"])
def test_leaves_are_known_to_the_choice(size):
    """As to a group that has measured what lies between them, and to explain."""
    place = ["all_reduce", size, "--hosts", "4x8", "--leaf", "2", "--oversubscription", "2"]
    place += ["--parameters", "default"]
    told = json.loads(run("explain", *place, "--json").stdout)
    (known,) = [row for row in told["candidates"] if row["chosen"]]
    (mine,) = [row for row in simulated(*place)["rows"] if row["chosen"]]
    assert (mine["algorithm"], mine["segments"]) == (known["algorithm"], known["segments"])
    assert mine["time_us"] == pytest.approx(known["time_us"], rel=0.02)


def test_a_fault_that_delays_nothing_says_so():
    place = ["all_reduce", "1M", "--ranks", "8", "--parameters", "default"]
    shown = run("simulate", *place, "--slow", "host0=0.5")
    assert "# the faults do not slow" in shown.stdout, shown.stdout


def test_one_row_is_not_held_against_others():
    place = ["all_reduce", "1M", "--hosts", "4x2", "--parameters", "default"]
    shown = run("simulate", *place, "-a", "ring")
    assert "# ring takes " in shown.stdout and "no other row" not in shown.stdout


def test_a_slow_link_is_named_and_delays_only_what_passes_it():
    place = ["all_reduce", "64M", "--hosts", "4", "--parameters", "default", "-a", "ring"]
    (there,) = simulated(*place, "--slow-link", "host2-host3=0.25")["rows"]
    assert there["time_us_with_faults"] == pytest.approx(4 * there["time_us"], rel=0.1)
    (back,) = simulated(*place, "--slow-link", "host3-host2=0.25")["rows"]
    assert back["time_us_with_faults"] == pytest.approx(back["time_us"], rel=0.01)
    report = simulated(*place, "--slow-link", "host2-host3=0.25")
    assert report["details"]["busiest_links"][0]["link"] == "host2 -> host3, rail0"


def measured_cluster(**changes) -> dict:
    """As `ringwood matrix --json` writes it: 100 MB/s, host 2 to host 3 a quarter of that."""
    rates = [[1e8 * (a != b) for b in range(4)] for a in range(4)]
    rates[2][3] = 2.5e7
    rail = {
        "rail": "",
        "transport": "tcp",
        "latency_s": [[2e-5 * (a != b) for b in range(4)] for a in range(4)],
        "alone_bytes_per_s": rates,
        "pairs_bytes_per_s": rates,
        "all_bytes_per_s": [[rate / 3 for rate in row] for row in rates],
    }
    slow = {
        "kind": "link",
        "from": "c",
        "to": "d",
        "rail": "",
        "bytes_per_s": 2.5e7,
        "expected_bytes_per_s": 1e8,
    }
    return {
        "hosts": ["a", "b", "c", "d"],
        "ranks": [1, 1, 1, 1],
        "rails": [rail],
        "rail_by_rail": None,
        "slow": [slow],
        "machine": "",
        "hosts_on_the_same_cores": 1,
        "seconds": 1,
        **changes,
    }


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: {"matrix": m}], ids=["matrix", "doctor"])
def test_like_is_the_cluster_that_was_measured(tmp_path, wrap):
    path = tmp_path / "m.json"
    path.write_text(json.dumps(wrap(measured_cluster())))
    report = simulated("all_reduce", "64M", "--like", str(path), "-a", "ring")
    assert (report["hosts"], report["ranks"], report["faults"]) == (4, 4, ["c -> d at 0.25"])
    (row,) = report["rows"]
    # Of a ring, three quarters of the buffer pass each link twice.
    assert row["time_us"] == pytest.approx(2 * 0.75 * 2**26 / 1e8 * 1e6, rel=0.05)
    assert row["time_us_with_faults"] == pytest.approx(4 * row["time_us"], rel=0.05)
    # Of two hosts the link is not among them; more hosts are like the measured ones.
    two = simulated("all_reduce", "1M", "--like", str(path), "--hosts", "2")
    assert (two["hosts"], two["faults"]) == (2, [])
    points = simulated("all_reduce", "1M", "--like", str(path), "--scale", "2..8")
    assert [point["faults"] for point in points] == [[], ["c -> d at 0.25"], ["c -> d at 0.25"]]
    assert simulated("all_reduce", "1M", "--like", str(path), "--hosts", "8")["ranks"] == 8


def test_like_knows_rails_that_are_slow_or_disturb_each_other(tmp_path):
    """Rails of 100 and 50 MB/s, and of each half while both are busy."""
    cluster = measured_cluster(slow=[])
    healthy = {**cluster["rails"][0], "rail": "a"}
    for kind in ("alone", "pairs", "all"):
        healthy[f"{kind}_bytes_per_s"] = [[1e8 * (a != b) for b in range(4)] for a in range(4)]
    slow = {**healthy, "rail": "b"}
    slow["alone_bytes_per_s"] = [[5e7 * (a != b) for b in range(4)] for a in range(4)]
    cluster["rails"] = [healthy, slow]
    cluster["ranks"] = [2] * 4
    path = tmp_path / "m.json"

    def faults(together: list[float]) -> list[str]:
        cluster["rail_by_rail"] = {
            "cross_bytes_per_s": [[1e8, 5e7], [5e7, 5e7]],
            "pair_bytes_per_s": [[1e8, 5e7], [5e7, 5e7]],
            "all_bytes_per_s": together,
        }
        path.write_text(json.dumps(cluster))
        report = simulated("all_reduce", "64M", "--like", str(path))
        assert "2 rails" in report["network"], report["network"]
        return report["faults"]

    assert faults([1e8, 5e7]) == ["b at 0.50"]
    busy = [f"{name} while all rails are busy at 0.50" for name in "ab"]
    assert faults([5e7, 2.5e7]) == [busy[0], "b at 0.50", busy[1]]


@pytest.mark.parametrize(
    "text", ['{"findings": [], "hosts": []}', '[{"process": {}}]', '{"process": {}}']
)
def test_like_says_what_a_diagnosis_lacks(tmp_path, text):
    path = tmp_path / "d.json"
    path.write_text(text)
    done = run("simulate", "all_reduce", "1M", "--like", str(path))
    assert done.returncode == 2 and "has no matrix: run it with --probe" in done.stderr


def test_a_flow_may_get_only_a_part_of_a_port(tmp_path):
    cluster = measured_cluster(slow=[])
    cluster["rails"][0]["all_bytes_per_s"] = [[1e8 * (a != b) for b in range(4)] for a in range(4)]
    path = tmp_path / "m.json"
    path.write_text(json.dumps(cluster))
    report = simulated("all_to_all", "64M", "--like", str(path), "-a", "pairwise")
    assert "0.1 GB/s from a host to another one" in report["network"]
    assert report["rows"][0]["time_us"] == pytest.approx(2**24 / 1e8 * 1e6, rel=0.1)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"hosts": ["a"]}, "is not of 1 numbers"),
        ({"hosts": ["a", "b", "c", "c"]}, "a host is there twice"),
        ({"ranks": [1, 1, 1, 2]}, "different numbers of ranks"),
        ({"rails": []}, "no matrix of two hosts"),
        ({"slow": [{"kind": "link", "from": "a", "to": "x"}]}, "is not one of the hosts"),
        ({"machine": "ringwood-machine-0"}, "ringwood-machine"),
        ({"seconds": "long"}, "something else than a number"),
    ],
)
def test_like_refuses_what_was_not_measured(tmp_path, change, why):
    path = tmp_path / "m.json"
    path.write_text(json.dumps(measured_cluster(**change)))
    done = run("simulate", "all_reduce", "1M", "--like", str(path))
    assert done.returncode == 2 and why in done.stderr, done.stderr


def test_seeds_are_reproducible_and_matter():
    place = ["all_reduce", "16M", *SMALL, "--leaf", "2", "-a", "halving_doubling"]
    one, again = (simulated(*place, "--seeds", "20") for _ in range(2))
    assert one == again
    (row,) = one["rows"]
    assert row["p10_us"] <= row["p50_us"] <= row["p90_us"] and row["p10_us"] < row["p90_us"]
    (other,) = simulated(*place, "--seed", "7")["rows"]
    assert other["time_us"] != row["time_us"]


def test_the_table_says_what_to_do():
    done = run("simulate", "all_reduce", "16M", *SMALL, *LEAVES, "--slow", "host3=0.25")
    assert (done.returncode, complaints(done)) == (0, "")
    head = [line for line in done.stdout.splitlines() if line.startswith("#")]
    assert "# faults: slow host3=0.25" in head
    assert any(line.startswith("# the faults cost ") for line in head)
    assert any(line.startswith("# slowest ranks of ") for line in head)
    assert any(line.startswith("# busiest links: host3/") for line in head)
    rows = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    assert rows[0].startswith("* ")


def test_parameters_come_from_a_file(tmp_path):
    told = json.loads(run("explain", "all_reduce", "8", "--parameters", "default", "--json").stdout)
    file = tmp_path / "parameters"
    file.write_text(re.sub(r" nic=\S+", " nic=1000000000", told["parameters"]) + "\n")
    place = ["all_reduce", "64M", "--hosts", "8", "-a", "ring"]
    (fast,) = simulated(*place, "--parameters", "default")["rows"]
    (slow,) = simulated(*place, "--parameters", str(file))["rows"]
    assert slow["time_us"] / fast["time_us"] == pytest.approx(1.25, rel=0.1)


def test_a_slow_rail_of_the_parameters_is_a_slow_port(tmp_path):
    """A file of the group's probe says what --rails, --rail-use and --slow say."""
    told = json.loads(run("explain", "all_reduce", "8", "--parameters", "default", "--json").stdout)
    text = told["parameters"].replace(" rails=1 rail_of_rank=0 ", " rails=2 rail_of_rank=1 ")
    file = tmp_path / "parameters"
    file.write_text(text.replace(" exceptions= ", " exceptions=1/1:0.25:node ") + "\n")
    place = ["all_reduce", "16M", "--hosts", "4", "--ranks-per-host", "2"]
    row = ["-a", "hierarchical", "--segments", "1"]
    (found,) = simulated(*place, *row, "--parameters", str(file))["rows"]
    typed = ["--parameters", "default", "--cores", "2", "--rails", "2", "--rail-use", "rank"]
    (same,) = simulated(*place, *row, *typed, "--slow", "host1/rail1=0.25")["rows"]
    assert found["time_us"] == same["time_us_with_faults"] > 3 * same["time_us"]
    # The choice's own simulation has the same ports.
    place = ["all_reduce", "16M", "--hosts", "0,0,1,1,2,2,3,3", "--parameters", str(file), "--json"]
    rows = json.loads(run("explain", *place).stdout)["candidates"]
    (costed,) = [c for c in rows if c["algorithm"] == "hierarchical" and c["segments"] == 1]
    assert costed["time_us"] == pytest.approx(found["time_us"], rel=0.05)


def test_a_saved_file_is_read_as_by_explain(tmp_path):
    file = tmp_path / "saved"
    place = ["--hosts", "2", "--parameters", "default"]
    assert run("explain", "all_reduce", "8", *place, "--save", str(file)).returncode == 0
    file.write_text("# of a cluster\n" + file.read_text())
    rows = [
        simulated("all_reduce", "1M", "--hosts", "8", "-a", "ring", "--parameters", source)["rows"]
        for source in ("default", str(file))
    ]
    assert rows[0] == rows[1]


def test_islands_leave_the_host_alone():
    place = ["all_reduce", "64M", *SMALL, "-a", "hierarchical"]
    (cpu,) = simulated(*place)["rows"]
    (gpu,) = simulated(*place, "--island", "4", "--rails", "4", "--rail-use", "rank")["rows"]
    assert gpu["time_us"] < cpu["time_us"]


def test_progress_is_told_on_demand():
    done = run("simulate", "all_reduce", "64M", "--hosts", "64", "--ranks-per-host", "8",
               "--parameters", "default", "-a", "ring", "--progress")  # fmt: skip
    assert done.returncode == 0
    assert "ranks are bound" in done.stderr or "% of the steps" in done.stderr


def test_a_trace_has_what_the_format_requires(tmp_path):
    file = tmp_path / "trace.json"
    report = simulated("all_reduce", "4M", *SMALL, "--trace", str(file), "--late", "rank9=1ms")
    trace = json.loads(file.read_text())
    assert trace["displayTimeUnit"] in ("ms", "ns")
    steps = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    names = [event for event in trace["traceEvents"] if event["ph"] == "M"]
    assert len(steps) + len(names) == len(trace["traceEvents"]) and len(steps) > 100
    for event in steps:
        assert isinstance(event["name"], str) and isinstance(event["cat"], str)
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert event["ts"] >= 0 and event["dur"] >= 0
    # What is on one thread does not overlap, which viewers could not show.
    by_thread = {}
    for event in sorted(steps, key=lambda event: event["ts"]):
        key = event["pid"], event["tid"]
        assert event["ts"] >= by_thread.get(key, 0) - 1e-3
        by_thread[key] = event["ts"] + event["dur"]
    labels = {e["args"]["name"] for e in names}
    assert {f"rank{r}" for r in range(32)} | {f"host{h}" for h in range(8)} == labels
    (chosen,) = [row for row in report["rows"] if row["chosen"]]
    last = max(event["ts"] + event["dur"] for event in steps)
    assert last <= chosen["time_us_with_faults"] * (1 + 1e-6)


def test_a_long_trace_is_bounded(tmp_path):
    file = tmp_path / "trace.json"
    place = ["--hosts", "64", "--ranks-per-host", "8", "--parameters", "default", "-a", "pairwise"]
    simulated("all_to_all", "1G", *place, "--trace", str(file))
    assert file.stat().st_size < 32 << 20
    ranks = {event["args"].get("rank") for event in json.loads(file.read_text())["traceEvents"]}
    assert len(ranks - {None}) <= 32


def test_scale_is_a_table_and_a_picture(tmp_path):
    file = tmp_path / "scale.svg"
    place = ["all_reduce", "16M", "--ranks-per-host", "4", "--parameters", "default"]
    reports = simulated(*place, "--scale", "2..32", "--svg", str(file))
    assert [(report["ranks"], report["hosts"]) for report in reports] == [
        (2, 1), (4, 1), (8, 2), (16, 4), (32, 8),
    ]  # fmt: skip
    picture = ElementTree.parse(file).getroot()
    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"2", "4", "8", "16", "32"} <= set(texts)
    algorithms = {row["algorithm"] for report in reports for row in report["rows"]}
    assert algorithms <= set(texts)
    lines = list(picture.iter("{http://www.w3.org/2000/svg}polyline"))
    assert len(lines) == len(algorithms)


@pytest.mark.slow
@pytest.mark.parametrize("row", ["halving_doubling", "hierarchical"])
def test_16384_ranks_in_bounded_memory(row):
    place = ["--hosts", "2048", "--ranks-per-host", "8", "--parameters", "default"]
    done, kib = run_measured("simulate", "all_reduce", "64M", *place, "-a", row, "--json")
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert report["rows"][0]["messages"] > 400_000
    assert kib < 512 << 10

"""`--replay`: a recorded run, simulated (`ringwood simulate`) and run again (`ringwood perf`)."""

import itertools
import json
from pathlib import Path
from statistics import median

import pytest
from chromium import assert_self_contained, coloured_pixels, document_of
from pair_hosts import pair_hosts, run_on
from ringwood_command import ROOT, environment, run
from wakeups import first_right, measures_again, wakeups

SIZES = [2 << 20, 4 << 20]
JOB = ["all_reduce", "broadcast", "all_gather", "--sizes", "2M,4M", "-n", "3", "--batches", "2"]
MBIT = 400


@pytest.fixture(scope="module")
def traces(tmp_path_factory) -> Path:
    """What 2 ranks recorded of three collectives."""
    folder = tmp_path_factory.mktemp("traces")
    more = {"RINGWOOD_TRACE_DIR": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    done = run("perf", *JOB, "--ranks", "2", **more)
    assert done.returncode == 0, done.stderr
    return folder


def dumps_of(folder: Path) -> list[dict]:
    return [json.loads(file.read_text()) for file in sorted(folder.glob("*-rank*.json"))]


def whole(dump: dict) -> list[dict]:
    return [one for one in dump["operations"] if one["entered_ns"] > 0]


def replayed(command: str, folder: Path, *more: str) -> dict:
    done = run(command, "--replay", str(folder), "--json", *more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def key(row: dict) -> tuple:
    return row["collective"], row["bytes"]


def made_up(traces: Path, folder: Path, calls: list[dict]) -> Path:
    """A trace with these calls, of which each rank has the times (called, ended) in us."""
    for rank, file in enumerate(sorted(traces.glob("*-rank*.json"))):
        dump = json.loads(file.read_text())
        like = next(one for one in whole(dump) if one["collective"] == "all_reduce")
        dump["clock"], dump["steps"], dump["operations"] = [[1, 0, 0]], [], []
        for sequence, call in enumerate(calls):
            called, ended = (1000 * (us + 1000) for us in call["us"][rank])
            times = {"begun_ns": called, "agreed_ns": ended, "waiting_ns": 0}
            one = like | times | {"entered_ns": called, "ended_ns": ended, "sequence": sequence}
            one |= {name: value for name, value in call.items() if name != "us"}
            dump["operations"].append(one)
        (folder / file.name).write_text(json.dumps(dump))
    return folder


def test_each_kind_of_call_has_its_record_beside_its_prediction(traces):
    report = replayed("simulate", traces)
    dumps = dumps_of(traces)
    assert (report["recorded_ranks"], report["calls"]) == (2, len(whole(dumps[0])))
    for row in report["rows"]:
        mine = [one for one in whole(dumps[0]) if key(one) == key(row)]
        assert row["count"] == len(mine) > 0
        assert {row["algorithm"], *(one["algorithm"] for one in mine)} == {row["algorithm"]}
        # From the last call to the last end: no longer than the call of the rank that ends last.
        those = [one for dump in dumps for one in whole(dump) if key(one) == key(row)]
        longest = max(one["ended_ns"] - one["entered_ns"] for one in those) / 1e3
        assert 0 < row["recorded_us"] <= longest + 0.001  # printed with three decimals
    assert {key(row) for row in report["rows"] if row["bytes"]} == {
        (collective, size)
        for collective in ("all_reduce", "broadcast", "all_gather")
        for size in SIZES
    }
    totals = report["totals"]
    for column in totals.values():
        assert column["run_us"] == pytest.approx(column["calls_us"] + column["pauses_us"])
    assert totals["recorded"]["calls_us"] == pytest.approx(
        sum(row["recorded_sum_us"] for row in report["rows"])
    )
    began = max(whole(dump)[0]["entered_ns"] for dump in dumps)
    ended = max(one["ended_ns"] for dump in dumps for one in whole(dump))
    assert totals["recorded"]["run_us"] == pytest.approx((ended - began) / 1e3, rel=1e-3)


def test_a_call_is_predicted_as_simulate_predicts_it_alone(traces, tmp_path):
    machine = tmp_path / "machine"
    machine.write_text(dumps_of(traces)[0]["machine"] + "\n")
    for row in replayed("simulate", traces)["rows"]:
        if row["bytes"] == 0:
            continue
        done = run(
            *("simulate", row["collective"], str(row["bytes"]), "--ranks-per-host", "2"),
            *("-a", row["algorithm"], "--segments", str(row["segments"]), "--json"),
            *("--parameters", str(machine)),
        )
        (alone,) = json.loads(done.stdout)["rows"]
        assert row["predicted_us"] == pytest.approx(alone["time_us"]), row


def test_times_and_pauses_add_up_whatever_overlaps(traces, tmp_path):
    calls = [
        {"us": [(0, 400), (100, 300)]},  # the last rank calls at 100: 300 us
        {"us": [(900, 1000), (700, 1100)]},  # a pause of 500, then 200
        {"us": [(1050, 1500), (1050, 1600)]},  # called in the one before: 500 from its end
        {"us": [(2000, 2600), (2000, 2600)], "end": "failed"},
        {"us": [(3000, 3100), (3000, 3100)], "count": 0, "bytes": 0},
        {"us": [(3600, 3700), (3600, 3900)]},  # a pause of 2000, then 300
    ]
    report = replayed("simulate", made_up(traces, tmp_path, calls))
    (row,) = report["rows"]
    assert row["count"] == 4
    assert row["recorded_us"] == pytest.approx(300, abs=0.1)
    recorded, predicted = report["totals"]["recorded"], report["totals"]["predicted"]
    assert recorded["calls_us"] == pytest.approx(1300, abs=0.1)
    assert recorded["pauses_us"] == pytest.approx(2500, abs=0.1)
    # The third call still comes 150 us after the second one, and then waits for it.
    one = row["predicted_us"]
    third = max(one, 150) + one
    assert predicted["run_us"] == pytest.approx(one + 500 + third + 2000 + one, abs=0.5)
    text = " ".join(report["notes"])
    assert "1 of 6 calls have no whole record" in text
    assert "1 calls were left out, as only pairs of ranks know their sizes" in text


def test_faults_and_other_clusters(traces):
    report = replayed("simulate", traces, "--slow-rank", "rank1=0.1")
    assert report["faults"] == ["slow rank rank1=0.1"]
    for row in report["rows"]:
        assert row["with_faults_us"] >= 0.99 * row["predicted_us"]
    totals = report["totals"]
    assert totals["with_faults"]["calls_us"] > 1.5 * totals["predicted"]["calls_us"]
    assert "the faults make the whole run" in report["verdict"]
    larger = replayed("simulate", traces, "--hosts", "4", "--ranks-per-host", "2")
    assert larger["place"] == "8 ranks on 4 hosts"
    assert any("recorded with 2 ranks, simulated with 8" in note for note in larger["notes"])
    slower = replayed(
        "simulate", traces, "--hosts", "4", "--ranks-per-host", "2", "--slow=host1=0.01"
    )
    assert slower["totals"]["with_faults"]["run_us"] > slower["totals"]["predicted"]["run_us"]


def recorded_on(hosts, folder: Path, cache: Path) -> Path:
    """What a rank on each host recorded of 6 rings of 4 MiB."""
    folder.mkdir(parents=True)
    words = [str(ROOT / "build" / "tests" / "late_rank"), f"file://{folder}/store"]
    more = environment(
        RINGWOOD_TRACE_DIR=str(folder), XDG_CACHE_HOME=str(cache), RINGWOOD_ALGORITHM="ring"
    )
    results = run_on(hosts, [*words, str(4 << 20), "6", "-1", "0"], more)
    assert [code for code, _, _ in results] == [0] * 3, results
    return folder


@measures_again
def test_a_slow_link_costs_a_recorded_run_what_is_simulated(tmp_path):
    """Recorded without it, and simulated with it: as long as what is recorded with it."""

    def seen(row: dict, truth: dict) -> bool:
        alike = row["predicted_us"] == pytest.approx(row["recorded_us"], rel=0.2)
        return alike and row["with_faults_us"] == pytest.approx(truth["recorded_us"], rel=0.2)

    caches = (tmp_path / str(attempt) for attempt in itertools.count())

    def measure() -> tuple[dict, dict]:
        cache = next(caches)
        healthy = recorded_on(hosts, cache / "healthy", cache)
        hosts.slow_down(1, 2, MBIT / 4)
        slow = recorded_on(hosts, cache / "slow", cache)
        hosts.slow_down(1, 2, MBIT)
        (row,) = replayed("simulate", healthy, "--slow-link", "host1-host2=0.25")["rows"]
        (truth,) = replayed("simulate", slow)["rows"]
        return row, truth

    try:
        with pair_hosts(3, MBIT) as hosts:
            found = first_right(measure, seen)
    except OSError as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")
    assert seen(*found), found


def test_the_run_is_carried_out_again(traces):
    report = replayed("perf", traces, "--ranks", "2", "--batches", "2")
    simulated = replayed("simulate", traces)
    assert [key(row) for row in report["rows"]] == [key(row) for row in simulated["rows"]]
    for row in report["rows"]:
        assert row["wrong"] == 0 and row["measured_us"] > 0
        assert row["predicted_us"] > 0
        assert row["measured_sum_us"] >= row["count"] * row["measured_us"] / 2
    assert report["totals"]["recorded"] == simulated["totals"]["recorded"]
    assert any("--gaps keeps them" in note for note in report["notes"])
    other = replayed("perf", traces, "--ranks", "3", "--batches", "1")
    assert other["place"] == "3 ranks on 1 host"
    assert any("recorded with 2 ranks, run again with 3" in note for note in other["notes"])


def test_pauses_are_kept_where_wanted(traces, tmp_path):
    calls = [{"us": [(at, at + 100)] * 2} for at in range(0, 600000, 100000)]
    folder = made_up(traces, tmp_path, calls)
    with_gaps = replayed("perf", folder, "--ranks", "2", "--gaps")["totals"]["measured"]
    with wakeups() as machine:
        without = replayed("perf", folder, "--ranks", "2", "--batches", "1")["totals"]["measured"]
    assert with_gaps["pauses_us"] >= 5 * 99900
    assert without["pauses_us"] < 5 * 99900 * machine.late


def test_rows_of_a_table(traces):
    for command, column in (("simulate", "predicted"), ("perf", "measured")):
        done = run(command, "--replay", str(traces))
        assert done.returncode == 0, done.stderr
        head = next(line for line in done.stdout.splitlines() if "size (B)" in line)
        assert "recorded" in head and column in head
        assert f"--replay {traces}: " in done.stdout.splitlines()[0]
        assert done.stdout.splitlines()[-1].startswith("# all calls took ")


@pytest.mark.parametrize("command", ["simulate", "perf"])
def test_a_page_opens_without_a_network_and_its_plots_show(traces, tmp_path, command):
    page, earlier = tmp_path / "page.html", tmp_path / "earlier.json"
    quick = ["--sizes", "1M,4M", "-n", "1", "--batches", "1"]
    assert run("perf", "all_reduce", *quick, "--json", str(earlier)).returncode == 0
    replayed(command, traces, "--html", str(page), "--compare", f"before={earlier}")
    text = page.read_text()
    assert_self_contained(text)
    for title in ("Time of each call", "Time of all_reduce by size", "Kinds of calls", "before"):
        assert title in text
    pixels = coloured_pixels(document_of(page, tmp_path))
    assert len(pixels) == 4 and min(pixels) > 100, pixels


REFUSED = [
    (["simulate", "all_reduce", "1M"], "leave out collective"),
    (["simulate", "--scale", "2..4"], "leave out --scale"),
    (["simulate", "-a", "nothing"], "no recorded collective has an algorithm"),
    (["simulate", "--group", "none"], 'has no group "none"; it has perf'),
    (["simulate", "--html", "/nowhere/page.html"], "--html: /nowhere is not a folder"),
    (["simulate", "--compare", "x.json"], "give both"),
    (["perf", "all_reduce"], "leave out collective"),
    (["perf", "-e", "1M"], "leave out --maxbytes"),
    (["perf", "--min-busbw", "1"], "leave out --min-busbw"),
    (["perf", "--ladder"], "--ladder measures each layer by itself and has no use for --replay"),
    (["perf", "--group", "none"], 'has no group "none"; it has perf'),
]


@pytest.mark.parametrize(("words", "why"), REFUSED, ids=[" ".join(row[0]) for row in REFUSED])
def test_what_means_nothing_is_refused(traces, words, why):
    done = run(*words, "--replay", str(traces))
    assert done.returncode == 2 and why in done.stderr, done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("command", ["simulate", "perf"])
def test_traces_that_cannot_be(traces, tmp_path, command):
    def refusal() -> str:
        done = run(command, "--replay", str(tmp_path))
        assert done.returncode == 2, done.stderr
        return done.stderr

    assert "RINGWOOD_TRACE_DIR" in refusal()
    made_up(traces, tmp_path, [])
    assert "no call has a whole record" in refusal()
    once = {"us": [(0, 100)] * 2}
    made_up(traces, tmp_path, [once | {"bytes": 1 << 50, "count": 1 << 48}])
    assert "which no run has had" in refusal()
    made_up(traces, tmp_path, [once | {"type": "complex64", "op": "max"}])
    assert "cannot be reduced" in refusal()
    for file in list(tmp_path.glob("perf-*")):
        file.with_name(file.name.replace("perf", "other")).write_bytes(file.read_bytes())
    made_up(traces, tmp_path, [once])
    for file in list(tmp_path.glob("perf-*")):
        file.with_name(file.name.replace("perf", "other")).write_bytes(file.read_bytes())
    assert "take one with --group other|perf" in refusal()


def test_the_middle_call_is_shown(traces, tmp_path):
    us = [100, 5000, 300, 200, 400]
    calls = [{"us": [(10000 * i, 10000 * i + one)] * 2} for i, one in enumerate(us)]
    (row,) = replayed("simulate", made_up(traces, tmp_path, calls))["rows"]
    assert row["recorded_us"] == pytest.approx(median(us), abs=0.1)
    assert row["recorded_sum_us"] == pytest.approx(sum(us), abs=0.1)

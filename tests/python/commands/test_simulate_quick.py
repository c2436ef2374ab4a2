"""`ringwood simulate` of large groups: what is predicted in place of every message's simulation."""

import json
import re

import pytest
from ringwood_command import complaints, run
from test_simulate import simulated

LARGE = ["--hosts", "2048", "--ranks-per-host", "8", "--parameters", "default"]
MIDDLE = ["--hosts", "128", "--ranks-per-host", "8", "--parameters", "default"]


def by_name(report: dict) -> dict:
    return {row["algorithm"]: row for row in report["rows"]}


@pytest.mark.parametrize(
    "call", [("all_reduce", "1G"), ("all_reduce", "8"), ("all_to_all", "64M"), ("broadcast", "1G")]
)
def test_one_host_or_the_choice_stands_for_2048(call):
    report = simulated(*call, *LARGE)
    assert report["ranks"] == 16384
    for row in report["rows"]:
        assert (row["one_host_for_all"], row["estimated"]) in [(True, False), (False, True)], row
        assert row["why_not"] == "" and row["time_us"] > 0


def test_the_table_says_what_is_estimated_and_how_to_simulate_it():
    done = run("simulate", "all_reduce", "1G", *LARGE, "-a", "all")
    assert (done.returncode, complaints(done)) == (0, "")
    marked = [line.split()[1] for line in done.stdout.splitlines() if " ~" in line]
    (said,) = [line for line in done.stdout.splitlines() if "estimated" in line]
    names, _ = said.removeprefix("# ").split(": estimated, as ringwood explain does (~)")
    assert set(names.split(", ")) == set(marked) and "--all simulates them" in said
    assert "one host, simulated, stands for all" in done.stdout


def test_all_simulates_every_message_and_finds_the_same():
    """Rings of 512 ranks have more messages than are simulated at once."""
    call = ["all_reduce", "64M", "--hosts", "64", "--ranks-per-host", "8"]
    call += ["--parameters", "default"]
    quick, whole = by_name(simulated(*call)), by_name(simulated(*call, "--all"))
    assert quick.keys() == whole.keys()
    assert any(row["one_host_for_all"] for row in quick.values())
    for name, row in whole.items():
        assert not row["one_host_for_all"] and not row["estimated"]
        if not quick[name]["estimated"]:
            assert quick[name]["time_us"] == pytest.approx(row["time_us"], rel=0.05)


def test_faults_of_a_large_group_are_extended_from_smaller_ones():
    """A ring is as long on each way: the slow host delays each of its steps."""
    for shape, smaller in ((["--hosts", "2048"], [8, 16, 32]), (["--hosts", "64"], [])):
        place = [*shape, "--ranks-per-host", "8", "--parameters", "default", "-a", "ring"]
        report = simulated("all_reduce", "1G", *place, "--slow", "host5=0.5")
        (row,) = report["rows"]
        assert row["extended_from_hosts"] == smaller and not row["one_host_for_all"]
        assert row["time_us_with_faults"] / row["time_us"] == pytest.approx(2, rel=0.02)
        assert report["details"]["busiest_links"][0]["link"].startswith("host5/rail0")
    done = run("simulate", "all_reduce", "1G", *LARGE, "-a", "ring", "--late", "rank77=5ms")
    assert "ring (of 8, 16, 32 hosts): extended from smaller groups" in done.stdout
    refused = run(
        "simulate",
        "all_reduce",
        "1G",
        *LARGE,
        "-a",
        "ring",
        "--late",
        "rank77=5ms",
        "--trace",
        "/dev/null",
    )
    assert refused.returncode != 0 and "take fewer hosts" in refused.stderr


def test_a_named_row_and_faults_are_simulated_message_by_message():
    place = ["all_reduce", "8M", *MIDDLE]
    (named,) = simulated(*place, "-a", "hierarchical")["rows"]
    assert not named["one_host_for_all"] and not named["estimated"]
    faulty = simulated(*place, "--late", "rank3=5ms", "-a", "hierarchical_leaders")
    assert not any(row["estimated"] for row in faulty["rows"])


@pytest.mark.parametrize(
    "network",
    [["--leaf", "8"], ["--seeds", "2"], ["--late", "rank3=5ms"], ["--rails", "2"]],
)
def test_what_the_choice_does_not_know_is_simulated(network):
    place = ["all_reduce", "1K", "--hosts", "256", "--ranks-per-host", "4"]
    rows = simulated(*place, "--parameters", "default", *network)["rows"]
    assert not any(row["estimated"] for row in rows)


def test_small_messages_take_one_of_two_striped_rails():
    """Also where smaller groups, or one host, would stand for all."""
    for hosts in ("16", "512"):
        place = ["--hosts", hosts, "--ranks-per-host", "8", "--parameters", "default"]
        size = str(4096 * 8 * int(hosts))
        (one,) = simulated("all_gather", size, *place, "-a", "ring")["rows"]
        (two,) = simulated("all_gather", size, *place, "-a", "ring", "--rails", "2")["rows"]
        assert bool(two["extended_from_hosts"]) == (hosts == "512")
        assert 1.5 < two["time_us"] / one["time_us"] < 2


def parameters(tmp_path, **changes: float) -> list[str]:
    """The defaults, but for those that are given."""
    file = tmp_path / "parameters.txt"
    place = ["--ranks", "2", "--parameters", "default", "--save", str(file)]
    assert run("explain", "all_reduce", "8", *place).returncode == 0
    text = file.read_text()
    for name, value in changes.items():
        text, times = re.subn(rf"\b{name}=\S+", f"{name}={value:.12g}", text)
        assert times == 1, name
    file.write_text(text)
    return ["--parameters", str(file), "--cores", "8"]


@pytest.mark.parametrize("hosts", ["16", "2048"])
@pytest.mark.parametrize(
    "size, interface, limits",
    [("1G", 1e8, {"port out"}), ("1G", 1e18, {"memory", "core"}), ("8", 1e9, {"latency"})],
)
def test_each_row_is_limited_by_something(tmp_path, hosts, size, interface, limits):
    place = ["--hosts", hosts, "--ranks-per-host", "8", *parameters(tmp_path, nic=interface)]
    report = simulated("all_reduce", size, *place, "-a", "all")
    row = by_name(report)["recursive_doubling" if size == "8" else "ring"]
    assert row["limit"] in limits
    assert all(one["limit"] for one in report["rows"])


def test_the_limit_is_the_last_column():
    place = ["all_reduce", "64M", "--hosts", "4", "--parameters", "default", "-a", "ring"]
    done = run("simulate", *place)
    (header,) = [line for line in done.stdout.splitlines() if line.startswith("#         size")]
    (row,) = [line for line in done.stdout.splitlines() if " ring " in line and line[0] != "#"]
    assert header.endswith("  limit") and row.endswith("  port out")


@pytest.mark.parametrize(
    "network, limit",
    [
        (["--slow-link", "host2-host3=0.25"], "link of a pair"),
        (["--island", "8", "--island-rate", "10M"], "island"),
        (["--slow", "host1/in=0.1"], "port in"),
        (["--late", "rank1=10s"], "latency"),
    ],
)
def test_faults_and_networks_are_limits(network, limit):
    place = ["all_reduce", "64M", "--hosts", "4", "--ranks-per-host", "8", "-a", "ring"]
    (row,) = simulated(*place, "--parameters", "default", *network)["rows"]
    assert row.get("limit_with_faults", row["limit"]) == limit


def test_uplinks_are_a_limit():
    place = ["--hosts", "8", "--leaf", "4", "--uplinks", "1", "--parameters", "default"]
    (row,) = simulated("all_to_all", "64M", *place, "-a", "pairwise")["rows"]
    assert row["limit"] == "uplink"


def test_pods_are_a_limit_and_queue_pairs_a_way():
    place = ["--hosts", "16", "--leaf", "2", "--pod", "4", "--parameters", "default"]
    pods = [*place, "--pod-oversubscription", "4"]
    found = simulated("all_to_all", "64M", *pods, "-a", "pairwise")
    (row,) = found["rows"]
    assert row["limit"] == "uplink"
    assert found["details"]["busiest_links"][0]["link"].startswith("pod")
    (spread,) = simulated("all_to_all", "64M", *pods, "-a", "pairwise", "--queue-pairs", "8")[
        "rows"
    ]
    assert spread["time_us"] < row["time_us"]
    knob = run("simulate", "all_to_all", "64M", *pods, "--rdma", RINGWOOD_VERBS_QPS="8")
    assert "pods of 4 leaves with 2 uplinks for each rail, 8 queue pairs, seed 1" in knob.stdout
    # Of eight rails each link has 16 at most.
    args = ["all_reduce", "64M", *pods, "--rdma", "--rails", "8", "-a", "ring"]
    assert "16 queue pairs" in run("simulate", *args, RINGWOOD_VERBS_QPS="64").stdout
    # Of many ranks smaller groups of whole pods stand for all.
    many = ["--hosts", "256", "--ranks-per-host", "8", "--leaf", "4", "--pod", "4"]
    many += ["--routing", "adaptive", "--pod-oversubscription", "4", "--parameters", "default"]
    (row,) = simulated("all_reduce", "64M", *many, "-a", "ring")["rows"]
    extended = row["extended_from_hosts"]
    assert extended and all(hosts % 16 == 0 for hosts in extended)
    # One pod is none.
    many[5:8] = ["4", "--pod", "64"]
    (row,) = simulated("all_reduce", "64M", *many, "-a", "ring")["rows"]
    assert row["extended_from_hosts"]


PLACE = ["all_reduce", "64M", "--hosts", "8", "--ranks-per-host", "4", "--parameters", "default"]


def chosen_with(knobs: dict, *arguments: str) -> dict:
    done = run("simulate", *PLACE, *arguments, "--json", **knobs)
    assert (done.returncode, complaints(done)) == (0, "")
    report = json.loads(done.stdout)
    (row,) = [row for row in report["rows"] if row["chosen"]]
    return row | {"best": report["best"], "rows": report["rows"]}


def test_the_marked_row_is_what_the_knobs_take():
    assert chosen_with({})["algorithm"] != "direct"
    row = chosen_with({"RINGWOOD_ALGORITHM": "broadcast:chain,all_reduce:direct"})
    assert row["algorithm"] == "direct" and row["best"] != "direct"
    assert len(row["rows"]) > 2  # beside those that it could take
    assert chosen_with({"RINGWOOD_REPRODUCIBLE": "1"})["algorithm"] == "rank_order"


def test_the_wire_format_of_the_tolerance_is_simulated():
    exact, row = chosen_with({}), chosen_with({"RINGWOOD_TOLERANCE": "0.02"})
    assert (exact["wire"], row["wire"]) == ("float32", "bf16")
    assert row["time_us"] < exact["time_us"]
    done = run("simulate", *PLACE, RINGWOOD_TOLERANCE="0.02")
    assert f"* {2**26:>12} {row['algorithm']}+bf16" in done.stdout


def test_a_knob_that_names_no_row_is_refused():
    done = run("simulate", *PLACE, RINGWOOD_ALGORITHM="all_reduce:nonsense")
    assert done.returncode == 2
    assert "RINGWOOD_ALGORITHM=all_reduce:nonsense: no algorithm 'nonsense'" in done.stderr
    assert "there are: direct, " in done.stderr

"""`ringwood explain`: the candidates in order, the choice among them, and what is refused."""

import json

import pytest
from ringwood_command import run


def explained(*arguments: str) -> dict:
    done = run("explain", *arguments, "--parameters", "default", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.parametrize("collective", ["all_reduce", "broadcast", "all_to_all", "barrier"])
@pytest.mark.parametrize("ranks, hosts", [("1", "1"), ("2", "1"), ("5", "2"), ("12", "12")])
def test_one_candidate_is_chosen(collective, ranks, hosts):
    report = explained(collective, "1M", "--ranks", ranks, "--hosts", hosts)
    chosen = [c for c in report["candidates"] if c["chosen"]]
    assert len(chosen) == 1
    assert chosen[0]["why_not"] == ""
    assert all(c["why_not"] for c in report["candidates"] if not c["chosen"])
    fastest = min(c["time_us"] for c in report["candidates"] if c["time_us"] is not None)
    # Nobody knows whose buffers are shared: what is chosen is good for both kinds.
    shared = min(c["shared_time_us"] for c in report["candidates"] if c["time_us"] is not None)

    def regret(c: dict) -> float:
        if fastest == 0:  # one rank has nothing to do
            return 1
        return max(c["time_us"] / fastest, c["shared_time_us"] / shared)

    least = min(regret(c) for c in report["candidates"] if c["time_us"] is not None)
    assert regret(chosen[0]) <= least * 1.06


def test_memory_nodes_bring_rows_of_their_own():
    rows = explained("all_reduce", "1M", "--ranks", "8", "--nodes", "2")["candidates"]
    flat = explained("all_reduce", "1M", "--ranks", "8")["candidates"]
    predicted = [
        {c["algorithm"] for c in candidates if c["time_us"] is not None}
        for candidates in (rows, flat)
    ]
    assert predicted[0] - predicted[1] == {"hierarchical_nodes"}


@pytest.mark.parametrize("ranks, hosts", [(128, 16), (1000, 128), (1024, 128), (16384, 2048)])
@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter"])
def test_large_groups_send_little_between_hosts(collective, ranks, hosts):
    """Every row has a time, whatever its steps, and those that keep to their hosts win."""
    report = explained(collective, "64M", "--ranks", str(ranks), "--hosts", str(hosts))
    for c in report["candidates"]:
        assert c["time_us"] is not None or c["why_not"].startswith("not for"), c
    (chosen,) = [c["algorithm"] for c in report["candidates"] if c["chosen"]]
    assert chosen in ("hierarchical", "ring")


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_to_all"])
def test_blocks_have_at_least_one_element(collective):
    """As in `ringwood perf`: 8 bytes among 128 ranks are blocks of one element, not of none."""
    report = explained(collective, "8", "--ranks", "128", "--hosts", "16")
    assert all(c["time_us"] is None or c["time_us"] > 1 for c in report["candidates"])


def test_the_table_begins_with_the_choice():
    done = run("explain", "all_reduce", "1M", "--ranks", "4", "--parameters", "default")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    assert rows[0].startswith("* ") and rows[0].endswith("  chosen")
    assert not any(row.startswith("*") for row in rows[1:])
    names = {row[2:].split()[0] for row in rows}
    assert {"one_shot", "direct", "ring"} <= names


def test_a_tolerance_adds_rows_of_fewer_bytes():
    place = ["all_reduce", "4M", "--ranks", "3", "--hosts", "3"]
    assert {c["wire"] for c in explained(*place)["candidates"]} == {"float32"}
    candidates = explained(*place, "--tolerance", "0.04")["candidates"]
    assert {c["wire"] for c in candidates} == {"float32", "bf16", "int8"}
    assert [c["wire"] for c in candidates if c["chosen"]] == ["int8"]


def test_parameters_are_measured_once(tmp_path):
    arguments = ["explain", "all_reduce", "1M", "--json"]
    first = run(*arguments, XDG_CACHE_HOME=str(tmp_path))
    kept = list(tmp_path.glob("ringwood/calibration-*"))  # not on a machine too busy to measure
    again = run(*arguments, XDG_CACHE_HOME=str(tmp_path))
    assert (first.returncode, again.returncode) == (0, 0)
    if kept:
        assert json.loads(first.stdout) == json.loads(again.stdout)
    off = run(*arguments, XDG_CACHE_HOME=str(tmp_path / "off"), RINGWOOD_CALIBRATION="off")
    assert json.loads(off.stdout)["parameters"] == explained("all_reduce", "1M")["parameters"]
    assert not (tmp_path / "off").exists()


@pytest.mark.parametrize(
    "arguments, why",
    [
        (["nonesuch", "1M"], "unknown collective 'nonesuch'"),
        (["all_reduce", "1Q"], 'BYTES "1Q" is not a size'),
        (["all_reduce"], "bytes is required"),
        (["all_reduce", "1M", "--hosts", "3"], "--hosts 3 is more than --ranks 2"),
        (["all_reduce", "1M", "--nodes", "3"], "more than --ranks 2"),
        (["all_reduce", "1M", "--type", "complex64", "--op", "max"], "cannot be reduced by max"),
        (["all_reduce", "1M", "--ranks", "0"], "not in range 1 to 16384"),
    ],
)
def test_bad_input_is_one_sentence(arguments, why):
    done = run("explain", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ringwood: ") and why in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1

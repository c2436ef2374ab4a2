"""`ringwood matrix --rails`: rails are judged too, each by the others and by itself alone."""

import json
import os
from contextlib import contextmanager
from pathlib import Path

import networks
import pytest
from pair_hosts import run_on
from ringwood_command import BINARY, environment, run
from shapes import Cluster, Shape, cluster
from test_matrix import near
from wakeups import first_right, measures_again

MBIT = 200
BYTES = MBIT * 1e6 / 8
SWITCH = f"ringwood-{os.getpid()}-switch"


@contextmanager
def two_rails(**more: float):
    shape = Shape("2 hosts of 2 ranks, 2 rails", hosts=2, ranks_per_host=2, rails=2, **more)
    try:
        with cluster(shape) as made:
            yield made
    except OSError as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")


def share_a_cable(hosts: Cluster) -> None:
    """Both rails of a host go through its first leaf, and from there through one cable."""
    networks.command("ip", "-n", SWITCH, "link", "delete", "up0r1")
    for leaf in range(2):
        ends = [f"in{leaf}", "type", "veth", "peer", "name", f"out{leaf}"]
        networks.command("ip", "-n", SWITCH, "link", "add", *ends)
        for rail, end in enumerate((f"in{leaf}", f"out{leaf}")):
            master = f"leaf{leaf}r{rail}"
            up = ["master", master, "mtu", "9000", "up"]
            networks.command("ip", "-n", SWITCH, "link", "set", end, *up)
    for host in hosts.namespaces:
        # Each rail answers for its own address only.
        write = "echo 1 > /proc/sys/net/ipv4/conf/all/arp_ignore"
        networks.command("ip", "netns", "exec", host, "sh", "-c", write)


def matrix(hosts: Cluster, folder: Path, *more: str) -> tuple[int, dict, str]:
    words = [str(BINARY), "matrix", "--rendezvous", f"file://{folder}/store", *more, "--json"]
    results = run_on(hosts, words, environment(XDG_CACHE_HOME=str(folder)))
    assert len({code for code, _, _ in results}) == 1, results
    return results[0][0], json.loads(results[0][1]), results[0][2]


def kinds(found: dict) -> list[tuple[str, str]]:
    assert all(s["from"] is None and s["to"] is None for s in found["slow"]), found["slow"]
    return sorted((s["kind"], s["rail"]) for s in found["slow"])


def simulated(found: dict, folder: Path, *more: str) -> dict:
    path = folder / "matrix.json"
    path.write_text(json.dumps(found))
    done = run("simulate", "all_reduce", "64M", "--like", str(path), "-a", "ring", "--json", *more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@measures_again
def test_rails_that_are_equal(tmp_path):
    def right(code: int, found: dict, _table: str) -> bool:
        between = found["rail_by_rail"]
        cross = [rate for row in between["cross_bytes_per_s"] for rate in row]
        return code == 0 and all(
            near(rate, BYTES, 0.25) for rate in cross + between["all_bytes_per_s"]
        )

    with two_rails(rate=MBIT) as hosts:
        result = first_right(lambda: matrix(hosts, tmp_path, "--modes", "alone"), right)
    _, found, table = result
    assert right(*result), table
    assert [rail["rail"] for rail in found["rails"]] == ["rail0", "rail1"]
    assert "2 rails, tcp" in table and "all rails at once: rail0" in table
    assert "nothing is slow" in table and kinds(found) == [] and found["notes"] == []


@measures_again
def test_a_rail_that_is_slow_at_all_hosts_is_named(tmp_path):
    def right(code: int, found: dict, _table: str) -> bool:
        return (
            code == 1
            and kinds(found) == [("rail", "rail1")]
            and near(found["slow"][0]["bytes_per_s"], BYTES / 4)
            and near(found["slow"][0]["expected_bytes_per_s"], BYTES)
        )

    with two_rails(rate=MBIT) as hosts:
        slower = ["tbf", "rate", f"{MBIT / 4}mbit", "burst", "20k", "latency", "50ms"]
        for host in hosts.namespaces:
            networks.command(
                "tc", "-n", host, *["qdisc", "change", "dev", "rail1", "root"], *slower
            )
        result = first_right(lambda: matrix(hosts, tmp_path, "--modes", "alone"), right)
    _, found, table = result
    assert right(*result), table
    assert "slow: rail1 at all hosts: 0.2" in table and "of the fastest rail" in table
    assert simulated(found, tmp_path)["faults"][0].startswith("rail1 at 0.2")


@measures_again
def test_rails_that_are_slow_together_are_named(tmp_path):
    def right(code: int, found: dict, _table: str) -> bool:
        return (
            code == 1
            and kinds(found) == [("together", "rail0"), ("together", "rail1")]
            and near(sum(slow["bytes_per_s"] for slow in found["slow"]), BYTES, 0.2)
        )

    # Of two hosts with a leaf each, the cable between the leaves has the rate of one port.
    with two_rails(rate=MBIT, middle=1) as hosts:
        share_a_cable(hosts)
        result = first_right(lambda: matrix(hosts, tmp_path, "--modes", "alone"), right)
    _, found, table = result
    assert right(*result), table
    assert "slow: rail0 while all rails are busy: 0." in table and "of its rate alone" in table
    report = simulated(found, tmp_path)
    assert len(report["faults"]) == 2 and "while all rails are busy at 0." in report["faults"][0]
    (row,) = report["rows"]
    # Half is left of both.
    assert row["time_us_with_faults"] / row["time_us"] == pytest.approx(2, rel=0.3)


def test_too_few_ranks_for_the_rails(tmp_path):
    with two_rails(rate=MBIT) as hosts:
        words = ["--modes", "alone", "--repeats", "1", "--rails", "rail0,rail1,lo"]
        _, found, table = matrix(hosts, tmp_path, *words)
    (note,) = found["notes"]
    assert note.startswith("2 of 3 rails were measured: host0 has ranks on no more"), note
    assert f"note: {note}" in table

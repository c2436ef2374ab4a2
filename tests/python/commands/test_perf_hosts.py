"""`ringwood perf` between two hosts (network namespaces): clocks, links, counters, transports."""

import json
import re

import pytest
from pair_hosts import run_on
from ringwood_command import BINARY, environment
from shapes import Shape, cluster
from wakeups import wakeups

RATE_GBS = 0.1  # 800 Mbit/s


@pytest.fixture(scope="module")
def hosts():
    try:
        with cluster(Shape("two hosts", hosts=2, rate=800)) as made:
            yield made
    except OSError as error:
        pytest.skip(f"no network namespaces: {error}")


def perf_on(hosts, folder, *words: str) -> tuple[list[int], list[str], list[str]]:
    """Exit codes, standard outputs and errors, by rank."""
    words = (str(BINARY), "perf", *words, "--rendezvous", f"file://{folder}/store")
    variables = environment(RINGWOOD_TRANSPORTS="tcp", XDG_CACHE_HOME=str(folder))
    codes, outputs, errors = zip(*run_on(hosts, words, variables), strict=True)
    return list(codes), outputs, errors


def test_links_clocks_and_counters_of_both_hosts(hosts, tmp_path):
    sizes = ["--sizes", "64K,4M", "-n", "2", "--batches", "3"]
    with wakeups() as machine:
        codes, outputs, errors = perf_on(hosts, tmp_path, "all_reduce", "--json", *sizes)
    assert codes == [0, 0], errors
    report = json.loads(outputs[0])
    assert outputs[1] == ""  # only rank 0 speaks
    assert [host["ranks"] for host in report["hosts"]] == [[0], [1]]
    # The ports pass 0.1 GB/s each way; headers take some of it, and a busy machine more.
    assert 0.02 / machine.late < report["limits"]["link_gbs"] < 1.1 * RATE_GBS
    small, large = report["rows"]
    assert {row["transports"] for row in report["rows"]} == {"tcp"}
    assert small["clock_error_us"] > 0
    # Both hosts' data pass both ports once.
    assert large["limit_us"] == pytest.approx(large["bytes"] / report["limits"]["link_gbs"] / 1e3)
    assert large["limit_percent"] > 10 / machine.late
    assert "# Between hosts        : " in errors[0]
    for row in report["rows"]:
        # One clock: neither rank can come later than an operation takes.
        assert 0 < row["skew_us_p50"] < row["time_us_p99"] + row["clock_error_us"]


def test_the_bytes_of_every_port_are_told(hosts, tmp_path):
    sizes = ["--sizes", "1M", "-n", "4", "--batches", "2"]
    page = tmp_path / "page.html"
    words = ["all_reduce", "--json", *sizes, "--html", str(page)]
    codes, outputs, errors = perf_on(hosts, tmp_path, *words)
    assert codes == [0, 0], errors
    for host in json.loads(outputs[0])["hosts"]:
        (interface,) = host["traffic"]  # the only one that is up
        sent, received = (
            host["traffic"][interface][f"{way}_bytes"] for way in ("sent", "received")
        )
        # Each rank sends and receives the megabyte in every operation.
        assert min(sent, received) > 8 << 20
    lines = re.findall(rf"^# Traffic of \S+: {interface} sent (\S+) MB, received", errors[0], re.M)
    assert len(lines) == 2
    assert float(lines[1]) * 1e6 == pytest.approx(sent, rel=0.01)
    cell = f"<td>{interface}</td><td[^>]*>{lines[1]} MB</td>"
    assert re.search(cell, page.read_text())


def test_a_wrong_transport_between_hosts_is_named_with_the_pair(hosts, tmp_path):
    words = ["barrier", "-n", "1", "--batches", "1", "--require", "verbs"]
    codes, _, errors = perf_on(hosts, tmp_path, *words)
    assert codes == [1, 1]
    pair = r"ringwood: rank 0 \(\S+\) reaches rank 1 \(\S+\) over tcp, not over verbs as --require"
    assert re.search(pair, errors[0]), errors
    codes, _, errors = perf_on(hosts, tmp_path, *words[:-1], "tcp")
    assert codes == [0, 0], errors


def test_the_format_of_nccl_tests_between_hosts(hosts, tmp_path):
    words = ["all_reduce", "--format", "nccl-tests", "-b", "64K", "-e", "64K", "-g", "1", "-n", "2"]
    codes, outputs, errors = perf_on(hosts, tmp_path, *words)
    assert codes == [0, 0], errors
    assert outputs[1] == ""
    ranks = re.findall(r"^#  Rank +(\d+) Group  0 Pid +\d+ on +\S+ device +(\d+)", outputs[0], re.M)
    assert ranks == [("0", "0"), ("1", "0")]  # the first one of each host
    assert "# Out of bounds values : 0 OK" in outputs[0]

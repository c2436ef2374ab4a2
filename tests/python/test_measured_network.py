"""What the probe finds between hosts: clusters of network namespaces, shaped to known rates."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from processes import PATIENCE_S
from ringwood_command import BINARY, environment
from shapes import Cluster, Shape, cluster
from wakeups import first_right, measures_again

pytestmark = measures_again
FOUND = re.compile(
    r"(\d+) hosts, (measured|as measured before) in ([\d.]+) ms: ([\d.]+) us, ([\d.]+) Gbit/s, "
    r"([\d.]+) of it both ways(?:; far: ([\d.]+) us, ([\d.]+) Gbit/s)?"
)


@dataclass
class Network:
    how: str
    ms: float
    latency_us: float
    mbit: float
    both_ways: float
    far_mbit: float | None
    log: str


def start(on: Cluster, folder: Path, **environment_too: str) -> list[subprocess.Popen]:
    """A barrier among the ranks of the cluster; each says what it does in a file."""
    (folder / "store").unlink(missing_ok=True)
    ranks = []
    for rank in range(on.shape.ranks):
        namespace, variables = on.place(rank)
        words = ["perf", "barrier", "-n", "1", "-w", "0", "--rendezvous", f"file://{folder}/store"]
        with open(folder / f"log{rank}", "wb") as log:
            ranks.append(
                subprocess.Popen(
                    ["ip", "netns", "exec", namespace, str(BINARY), *words],
                    env=environment(
                        RINGWOOD_LOG="info",
                        RINGWOOD_TRANSPORTS="tcp",
                        XDG_CACHE_HOME=str(folder),
                        **variables,
                        **environment_too,
                    ),
                    stdout=log,
                    stderr=log,
                )
            )
    return ranks


def measured(on: Cluster, folder: Path, right) -> Network:
    """The first measurement that is right."""
    measure = lambda: (found(on, folder, RINGWOOD_CALIBRATION="refresh"),)  # noqa: E731
    (network,) = first_right(measure, right)
    assert network.how == "measured"
    assert right(network), network
    return network


def near(value: float | None, wanted: float, part: float = 0.1) -> bool:
    return value is not None and abs(value - wanted) <= part * wanted


def found(on: Cluster, folder: Path, **environment_too: str) -> Network:
    ranks = start(on, folder, **environment_too)
    try:
        codes = [rank.wait(PATIENCE_S) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    log = (folder / "log0").read_text()
    assert codes == [0] * len(ranks), log
    line = FOUND.search(log)
    assert line, log
    how, ms, latency, rate, both, far = line.group(2, 3, 4, 5, 6, 8)
    far_mbit = float(far) * 1e3 if far else None
    return Network(how, float(ms), float(latency), float(rate) * 1e3, float(both), far_mbit, log)


@pytest.fixture
def on(request):
    try:
        with cluster(request.param) as made:
            yield made
    except OSError as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")


def shapes(*all_of_them: Shape):
    return pytest.mark.parametrize("on", all_of_them, indirect=True, ids=lambda s: s.what)


@shapes(Shape("1 Gbit", rate=1000, hosts=2), Shape("200 Mbit", rate=200, hosts=2))
def test_the_rate_is_found_and_kept(on, tmp_path):
    # A host that got no core for a moment is a slow one, so that is measured again as well.
    measured(on, tmp_path, lambda w: near(w.mbit, on.shape.rate) and "slower than" not in w.log)
    # The latency of a machine at work is another one.
    (again,) = first_right(
        lambda: (found(on, tmp_path),), lambda network: network.how == "as measured before"
    )
    assert again.how == "as measured before", again


@shapes(Shape("1 ms one way", rate=200, hosts=2, delay_ms=1))
def test_delay_is_latency_and_does_not_lower_the_rate(on, tmp_path):
    measured(on, tmp_path, lambda w: near(w.mbit, 200) and near(w.latency_us, 1000))


@shapes(Shape("one slow host of 4", rate=400, slow_port=(2, 0, 0.25)))
def test_a_slow_host_is_named(on, tmp_path):
    slow = re.compile(r"slower than half of the other hosts'.*Gbit/s: host2 at (\d+) %:")

    def right(network: Network) -> bool:
        share = slow.search(network.log)
        return bool(share) and near(float(share[1]), 25, 0.2) and near(network.mbit, 400)

    measured(on, tmp_path, right)


@shapes(Shape("2:1 in the middle", rate=200, hosts=4, middle=2))
def test_what_hosts_share_far_away_is_found(on, tmp_path):
    def right(network: Network) -> bool:
        far = network.far_mbit and network.far_mbit * network.both_ways
        return near(network.mbit, 200) and near(far, 100)

    measured(on, tmp_path, right)

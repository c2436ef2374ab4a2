"""Faults of RoCE, planted between two virtual hosts: doctor names each, and only it."""

import json
import tarfile
from pathlib import Path

import pytest
from ringwood_command import BINARY, run
from test_roce_lab import BOOT_S, LAB, boot

pytestmark = [pytest.mark.lab, pytest.mark.timeout(2 * BOOT_S), pytest.mark.slow]

HEALTHY = {"healthy", "probed"}
# The step of tests/roce-lab/doctor.sh, what it must give, on which host.
FAULTS = {
    "healthy": (set(), set()),
    "mtu": ({"hosts-mtu"}, {"roce-h0, roce-h1"}),
    "no-address": ({"gid-link-local"}, {"roce-h1"}),
    "memlock": ({"memlock"}, {"roce-h1"}),
    "port-down": ({"port-down"}, {"roce-h1"}),
    "pulled": ({"port-down"}, {"roce-h1"}),
    "loss": ({"fabric-loss"}, {"roce-h0", "roce-h1"}),
    "cross-subnet": ({"hosts-route"}, {"roce-h0", "roce-h1"}),
    "settings": ({"hosts-settings"}, {"roce-h0, roce-h1"}),
    "environment": ({"hosts-environment"}, {"roce-h0, roce-h1"}),
    "one-sided-dscp": ({"hosts-dscp"}, {"roce-h0, roce-h1"}),
    "probed": (set(), set()),
    "slow-rail": ({"probe-slow-pair"}, {"roce-h0, roce-h1"}),
}


@pytest.fixture(scope="module")
def two_hosts(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("doctor")
    run = boot(out, LAB.parent / "doctor.sh", BINARY, *FAULTS, hosts=2, rails=2, mtu=4200)
    assert run.returncode == 0, run.stdout + run.stderr
    return out


@pytest.mark.parametrize("step", FAULTS)
def test_a_fault_gives_exactly_its_finding(two_hosts, step):
    ids, hosts = FAULTS[step]
    told = (two_hosts / f"{step}.0.out").read_text() + (two_hosts / f"{step}.0.err").read_text()
    found = json.loads((two_hosts / f"{step}.0.json").read_text())
    assert {one["id"] for one in found["findings"]} == ids, told
    assert {one["host"] for one in found["findings"]} <= hosts, told
    assert int((two_hosts / f"{step}.0.rc").read_text()) == found["exit_code"], told
    assert (found["exit_code"] == 0) == (step in HEALTHY), told
    rails = [rail for host in found["hosts"] for rail in host["rails"]]
    assert len(rails) == 4 and {rail["rate"] for rail in rails} == {"unknown"}, told


def test_a_copy_of_the_host_tells_what_the_host_does(two_hosts, tmp_path):
    """Of /sys and /proc as a kernel with RDMA devices has them."""
    file = tmp_path / "copied.json"
    with tarfile.open(two_hosts / "tree.tar") as archive:
        archive.extractall(tmp_path / "tree", filter="tar")
    done = run("doctor", "--root", f"{tmp_path}/tree", "--snapshot", str(file))
    assert done.returncode == 0, done.stdout + (two_hosts / "record.err").read_text()
    copied, live = (json.loads(path.read_text()) for path in (file, two_hosts / "live.json"))
    # Only a running host can be asked what its library and drivers say.
    asked = {"counters", "device_file_writable", "in_library", "firmware"}
    for kind, names in (("ports", ("device", "number")), ("pci", ("address",))):
        there, here = (
            {tuple(one[name] for name in names): one for one in told[kind]}
            for told in (copied, live)
        )
        assert there.keys() == here.keys(), done.stdout
        for name, one in here.items():
            told = {key: value for key, value in there[name].items() if key not in asked}
            assert told == {key: value for key, value in one.items() if key not in asked}
    assert [port["counters"].keys() for port in copied["ports"]] == [
        port["counters"].keys() for port in live["ports"]
    ]


def test_the_slow_rail_is_named_among_two(two_hosts):
    """The second one's ports are at 16 Mbit/s; what both carry together would not tell which."""
    found = json.loads((two_hosts / "slow-rail.0.json").read_text())
    (finding,) = found["findings"]
    assert "rxe1 at all hosts: 0." in finding["evidence"], finding
    assert [rail["rail"] for rail in found["matrix_by_rail"]["rails"]] == ["rxe0", "rxe1"]
    slow = [path for path in found["matrix_by_rail"]["slow"] if path["kind"] == "rail"]
    assert [path["rail"] for path in slow] == ["rxe1"], slow
    assert 1e6 < slow[0]["bytes_per_s"] < 2.6e6

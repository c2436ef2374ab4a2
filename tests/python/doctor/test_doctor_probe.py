"""`ringwood doctor --probe`: what only traffic between hosts shows."""

import json
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import networks
import pytest
from doctor_runs import Found
from pair_hosts import run_on
from rdma_ports import RdmaPorts, covered
from ringwood_command import BINARY, environment
from shapes import Cluster, Shape, cluster
from test_doctor_hosts import found_of

MBIT = 200


@contextmanager
def hosts_of(shape: Shape):
    try:
        with cluster(shape) as made:
            yield made
    except OSError as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")


def probe(hosts: Cluster, folder: Path, ports: Path = Path("none"), **variables: str) -> Found:
    words = [str(BINARY), "doctor", "--probe", "--rendezvous", f"file://{folder}/store", "--json"]
    variables = environment(XDG_CACHE_HOME=str(folder), **variables)
    return found_of(run_on(hosts, covered(ports, words), variables))


def of_rule(found: Found, rule: str) -> list[tuple[str, str]]:
    return [(f["host"], f["evidence"]) for f in found.said["findings"] if f["id"] == rule]


@pytest.mark.parametrize(
    ("blocked", "named"),
    [
        ([(0, 1)], ["host0, host1"]),
        ([(0, 1), (2, 1)], ["host1"]),
        ([(0, 1), (2, 1), (0, 2)], ["host0, host1, host2"]),
    ],
)
def test_an_address_that_does_not_answer_is_named(blocked, named, tmp_path):
    """TCP passes, so the hosts meet; UDP goes nowhere."""
    with hosts_of(Shape("3 hosts", hosts=3, rate=MBIT)) as hosts:
        for one, other in blocked:
            to = ["to", f"10.214.0.{other + 1}/32", "ipproto", "udp", "blackhole"]
            networks.command("ip", "-n", hosts.namespaces[one], "rule", "add", *to)
        found = probe(hosts, tmp_path)
    unreachable = of_rule(found, "probe-unreachable")
    assert found.code == 2 and [host for host, _ in unreachable] == named, found.text
    assert "rail 0: " in unreachable[0][1] and " bytes" in unreachable[0][1]
    assert of_rule(found, "probe-mtu") == [], found.text  # that full ones vanish too is no news


def blocked_tcp(hosts: Cluster, on: int, to: int) -> list[str]:
    """What the one host answers never comes to the other: as a packet filter between them."""
    rule = ["to", f"10.214.0.{to + 1}/32", "ipproto", "tcp", "blackhole"]
    return ["ip", "-n", hosts.namespaces[on], "rule", "add", *rule]


@pytest.mark.parametrize(
    ("blocked", "named"), [([(2, 1)], "host1, host2"), ([(2, 1), (1, 3), (1, 0)], "host1")]
)
def test_a_packet_filter_between_hosts_is_named(blocked, named, tmp_path):
    """All reach the store, which is a file, so that they tell what they see; no group is made."""
    with hosts_of(Shape("4 hosts", hosts=4, rate=MBIT)) as hosts:
        for on, to in blocked:
            networks.command(*blocked_tcp(hosts, on, to))
        words = [str(BINARY), "doctor", "--probe", "--json", "-T", "3", "--ignore", "shm-small"]
        words += ["--rendezvous", f"file://{tmp_path}/store"]
        results = run_on(hosts, words, environment(XDG_CACHE_HOME=str(tmp_path)))
    assert {code for code, _, _ in results[1:]} == {3}
    found = Found(results[0][0], json.loads(results[0][1]), results[0][2])
    assert found.code == 2 and found.ids == {"hosts-unreachable"}, found.text
    assert found.hosts == {named} and len(found.said["hosts"]) == 4, found.text
    assert "cannot connect to rank" in found.said["findings"][0]["evidence"]
    assert "probe" in found.missed() and "not all hosts answered" not in found.text


def test_a_switch_that_drops_large_packets_is_named(tmp_path):
    """Both ends have an MTU of 9000, the switch's port to one host 1500: nobody is told."""
    with hosts_of(Shape("3 hosts", hosts=3, rate=MBIT)) as hosts:
        switch = hosts.namespaces[0].rpartition("-")[0] + "-switch"
        networks.command("ip", "-n", switch, "link", "set", "h1r0", "mtu", "1500")
        for number, host in enumerate(hosts.namespaces):
            # So that TCP passes, as it does where it is lucky.
            route = ["10.214.0.0/24", "dev", "rail0", "src", f"10.214.0.{number + 1}"]
            networks.command("ip", "-n", host, "route", "replace", *route, "advmss", "1400")
        found = probe(hosts, tmp_path)
    assert found.ids - {"shm-small", "probe-slow-pair"} == {"probe-mtu"}, found.text
    ((host, evidence),) = of_rule(found, "probe-mtu")
    assert host == "host1" and "9000 bytes" in evidence, evidence


def test_a_rail_does_not_answer_for_another_one_of_its_network(tmp_path):
    """Both rails in one network, and the second one's cables end nowhere."""
    with hosts_of(Shape("2 rails", hosts=2, rails=2, rate=MBIT)) as hosts:
        switch = hosts.namespaces[0].rpartition("-")[0] + "-switch"
        for number, host in enumerate(hosts.namespaces):
            add = ["address", "add", f"10.214.0.{number + 101}/24", "dev", "rail1"]
            networks.command("ip", "-n", host, *add)
            networks.command("ip", "-n", switch, "link", "set", f"h{number}r1", "nomaster")
            addresses = [f"10.214.0.{number + 1}", f"10.214.0.{number + 101}"]
            RdmaPorts(tmp_path, number, addresses)
        found = probe(hosts, tmp_path, tmp_path)
    ((host, evidence),) = of_rule(found, "probe-unreachable")
    assert host == "host0, host1" and evidence.startswith("rail 1: 10.214.0.10"), evidence
    # Ranks use TCP here, so no rail can be measured by itself, and that is said.
    assert "ranks use tcp between" in found.missed()["rails one by one"], found.text


def test_counters_that_rise_under_the_probe_are_named(tmp_path):
    """In one command, on hosts that do nothing else."""
    with hosts_of(Shape("2 hosts", hosts=2, rails=2, rate=MBIT)) as hosts:
        # The second one has one rail fewer.
        rails = {0: (214, 215), 1: (214,)}
        ports = [
            RdmaPorts(tmp_path, n, [f"10.{net}.0.{n + 1}" for net in nets])
            for n, nets in rails.items()
        ]
        done = threading.Event()

        def lose() -> None:
            while not done.wait(0.02):
                ports[1].raise_counter(0, "out_of_sequence", 100)

        losing = threading.Thread(target=lose)
        losing.start()
        try:
            found = probe(hosts, tmp_path, tmp_path)
        finally:
            done.set()
            losing.join()
    ((host, evidence),) = of_rule(found, "fabric-loss")
    assert host == "host1" and "out_of_sequence +" in evidence, found.text
    assert "second-sample" not in found.missed()
    reason = found.missed()["rails one by one"]
    assert reason.startswith("host0 has 2 rails that can be used and host1 has 1"), reason


def test_the_probe_runs_inside_of_the_watch(tmp_path):
    with hosts_of(Shape("2 hosts", hosts=2, rate=MBIT)) as hosts:
        words = [str(BINARY), "doctor", "--probe", "--watch", "6", "--json"]
        words += ["--rendezvous", f"file://{tmp_path}/store"]
        began = time.monotonic()
        results = run_on(hosts, words, environment(XDG_CACHE_HOME=str(tmp_path)))
        seconds = time.monotonic() - began
    assert "second-sample" not in found_of(results).missed()
    assert seconds >= 6, seconds


def test_hosts_with_rdma_that_talk_over_tcp_are_named(tmp_path):
    """Two of three hosts have ports, which nobody could open."""
    with hosts_of(Shape("3 hosts", hosts=3, rate=MBIT)) as hosts:
        for number in (0, 1):
            RdmaPorts(tmp_path, number, [f"10.214.0.{number + 1}"])
        found = probe(hosts, tmp_path, tmp_path)
        on_purpose = probe(hosts, tmp_path, tmp_path, RINGWOOD_TRANSPORTS="tcp")
    ((host, evidence),) = of_rule(found, "probe-over-tcp")
    assert host == "host0, host1" and "over tcp" in evidence, found.text
    assert found.said["matrix"]["rails"][0]["transport"] == "tcp"
    assert of_rule(on_purpose, "probe-over-tcp") == []

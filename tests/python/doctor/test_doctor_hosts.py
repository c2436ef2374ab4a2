"""`ringwood doctor` on several hosts: the odd one is named, between trees and in a laboratory."""

import json
import shutil
import subprocess
from pathlib import Path

import networks
import pytest
from doctor_gpus import add_gpus
from doctor_runs import (
    PORT,
    Found,
    all_cards_at_the_other_node,
    change,
    doctor,
    empty_gids,
    memlock,
    moved_gids,
    no_rdma,
    no_second_card,
    port_down,
    printing,
    raise_counter,
    raise_statistic,
    replacing,
    snapshot,
    two_samples,
    with_environment,
    writing,
)
from doctor_trees import gid_of, healthy, qos
from pair_hosts import pair_hosts, run_on
from processes import PATIENCE_S
from ringwood_command import BINARY, environment
from wakeups import first_right, growing_limit, measures_again


def moved_address(tree) -> None:
    for index in (2, 3):
        tree.write(f"{PORT}/gids/{index}", gid_of("10.88.1.3"))
    tree.replace("sos_commands/networking/ip_-o_addr", "10.10.1.3/24", "10.88.1.3/24")
    tree.replace("proc/self/net/route", "00010A0A", "0001580A")


def ipv6_gids(tree) -> None:
    for index in (2, 3):
        tree.write(f"{PORT}/gids/{index}", "fd00:0000:0000:0001:0000:0000:0000:0003")


# What the third of three hosts has that the others have not.
RULES_OF_HOSTS = {
    "hosts-kernel": writing("proc/sys/kernel/osrelease", "5.15.0"),
    "hosts-environment": with_environment(NCCL_IB_QPS_PER_CONNECTION="4"),
    "hosts-settings": replacing("proc/cmdline", "intel_iommu=on ", ""),
    "hosts-address-family": printing("ip -o addr", "2: eth0    inet6 fd00::3/64 scope global"),
    "hosts-rails": no_second_card,
    "hosts-mtu": writing("sys/class/net/rail1/mtu", 1500),
    "hosts-rate": lambda tree: [
        tree.write(f"sys/class/infiniband/mlx5_{rail}/ports/1/rate", "100 Gb/sec (4X EDR)")
        for rail in (0, 1)
    ],
    "hosts-gid": ipv6_gids,
    "hosts-firmware": writing("sys/class/infiniband/mlx5_1/fw_ver", "20.31.1014"),
    "hosts-dcb": printing("mlnx_qos -i rail1", qos(pfc="0   0   0   0   0   0   0   0")),
    "hosts-dscp": lambda tree: tree.environment(WORLD_SIZE="16"),
    "hosts-link-settings": replacing(
        "sos_commands/networking/ethtool_--show-fec_rail1", "encoding: RS", "encoding: BaseR"
    ),
    "hosts-gpus": add_gpus,
    # One host's own fault stays its own among others.
    "memlock": memlock,
    "port-down": port_down,
    "gid-link-local": lambda tree: empty_gids(tree, 2),
    "numa-far": all_cards_at_the_other_node,
}


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Two healthy hosts' snapshots, and the tree of a third."""
    folder = tmp_path_factory.mktemp("hosts")
    return [snapshot(healthy(folder, host)) for host in (1, 2, 3)]


@pytest.mark.parametrize("rule", RULES_OF_HOSTS)
def test_the_odd_host_is_named(rule, three, tmp_path):
    tree = healthy(tmp_path, 3)
    RULES_OF_HOSTS[rule](tree)
    found = doctor("--from", *three[:2], snapshot(tree))
    assert found.ids == {rule}, found.text
    assert found.hosts == {"host3"} or rule == "hosts-address-family", found.text


def test_healthy_hosts_have_no_finding(three):
    found = doctor("--from", *three)
    assert (found.code, found.ids) == (0, set()), found.text
    assert [host["host"] for host in found.said["hosts"]] == ["host1", "host2", "host3"]


def test_a_rail_that_leads_elsewhere(three, tmp_path):
    tree = healthy(tmp_path, 3)
    moved_address(tree)
    found = doctor("--from", *three[:2], snapshot(tree))
    assert found.ids == {"hosts-route"} and found.hosts == {"host1", "host2", "host3"}, found.text
    evidence = found.said["findings"][0]["evidence"]
    assert evidence.startswith("mlx5_1/1 (rail1) would reach 10.88.1.3 of host3 through eth0")


def test_a_fixed_index_that_means_another_row(tmp_path):
    trees = [healthy(tmp_path, host) for host in (1, 2, 3)]
    moved_gids(trees[2])
    assert doctor("--from", *map(snapshot, trees)).ids == set()
    for tree in trees:
        with_environment(NCCL_IB_GID_INDEX="3")(tree)
    found = doctor("--from", *map(snapshot, trees))
    assert found.ids == {"hosts-gid-index"} and found.hosts == {"host3"}, found.text


def test_hosts_without_rdma(tmp_path):
    trees = [healthy(tmp_path, host) for host in (1, 2, 3)]
    for tree in trees:
        no_rdma(tree)
    found = doctor("--from", *map(snapshot, trees))
    assert (found.code, found.ids) == (0, set()), found.text
    assert "no RDMA device" in found.missed()["rdma"]
    required = doctor("--root", trees[0].root, "--require", "verbs")
    assert (required.code, required.ids) == (2, {"rdma-required"})
    trees[2].write("sys/class/net/rail0/mtu", 1500)
    found = doctor("--from", *map(snapshot, trees))
    assert found.ids == {"hosts-interface-mtu"} and found.hosts == {"host3"}, found.text


def test_another_version_is_named(three, tmp_path):
    file = tmp_path / "other.json"
    file.write_text(three[2].read_text())
    change(file, ["system", "version"], "0.0.9")
    found = doctor("--from", *three[:2], file)
    assert found.ids == {"hosts-version"} and found.hosts == {"host3"}, found.text


def test_the_host_that_pauses_the_others_is_named(tmp_path):
    files = []
    for host, way in ((1, "rx"), (2, "rx"), (3, "tx")):
        counter = f"{way}_prio3_pause_duration"
        files += two_samples(
            healthy(tmp_path, host), lambda tree, c=counter: raise_statistic(tree, c, 4_000_000)
        )
    found = doctor("--from", *files)
    assert found.ids == {"host-pauses"} and found.hosts == {"host3"}, found.text
    assert "paused are host1, host2" in found.said["findings"][0]["evidence"]


def test_a_clock_that_is_wrong(three, tmp_path):
    files = []
    for host, file in enumerate(three):
        files.append(tmp_path / file.name)
        files[-1].write_text(file.read_text())
        change(files[-1], ["system", "clock_s"], 1.8e9 + (200 if host == 2 else host / 100))
    found = doctor("--from", *files)
    assert found.ids == {"hosts-clock"} and found.hosts == {"host3"}, found.text
    assert "200.0 s ahead" in found.text


@pytest.mark.parametrize(("handled", "ids"), [(0, {"hosts-notifications"}), (40, set())])
def test_notifications_that_nobody_handles(handled, ids, tmp_path):
    files = []
    for host, counter, amount in ((1, "np_cnp_sent", 50), (2, "rp_cnp_handled", handled)):
        files += two_samples(
            healthy(tmp_path, host),
            lambda t, c=counter, a=amount: raise_counter(t, f"hw_counters/{c}", a),
        )
    found = doctor("--from", *files)
    assert found.ids == ids and found.hosts <= {"host1"}, found.text


def test_every_host_that_pauses_others_is_named(tmp_path):
    files = []
    for host, way, time_us in ((1, "rx", 4), (2, "tx", 4), (3, "tx", 9)):
        counter, amount = f"{way}_prio3_pause_duration", 10**6 * time_us
        files += two_samples(
            healthy(tmp_path, host), lambda t, c=counter, a=amount: raise_statistic(t, c, a)
        )
    found = doctor("--from", *files)
    assert found.ids == {"host-pauses"} and found.hosts == {"host2", "host3"}, found.text


def test_a_host_without_the_first_card(three, tmp_path):
    """Its second card still belongs to the others' second one."""
    tree = healthy(tmp_path, 3)
    shutil.rmtree(tree.root / "sys/class/infiniband/mlx5_0")
    tree.remove("sys/bus/pci/devices/0000:17:00.0")
    found = doctor("--from", *three[:2], snapshot(tree))
    assert found.ids == {"hosts-rails"} and found.hosts == {"host3"}, found.text


def test_other_faults_are_not_hidden_by_fec(tmp_path):
    trees = [healthy(tmp_path, host) for host in (1, 2)]
    for tree in trees:
        tree.environment(WORLD_SIZE="16")
    RULES_OF_HOSTS["hosts-link-settings"](trees[1])
    found = doctor("--from", *map(snapshot, trees))
    assert found.ids == {"hosts-link-settings", "pfc-other-priority"}, found.text


MBIT = 400


@pytest.fixture(scope="module")
def hosts():
    try:
        with pair_hosts(4, MBIT) as made:
            yield made
    except OSError as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")


def found_of(results: list[tuple[int, str, str]]) -> Found:
    """What the first rank has said, and the others have not."""
    assert {code for code, _, _ in results[1:]} == {0}, results
    assert all(out == "" for _, out, _ in results[1:])
    code, out, err = results[0]
    return Found(code, json.loads(out), err)


def on_all(hosts, folder: Path, *more: str) -> Found:
    words = [str(BINARY), "doctor", "--all-hosts", "--rendezvous", f"file://{folder}/store", *more]
    return found_of(run_on(hosts, [*words, "--json"], environment(XDG_CACHE_HOME=str(folder))))


def test_a_healthy_laboratory_is_clean(hosts, tmp_path):
    found = on_all(hosts, tmp_path, "--probe", "--ignore", "shm-small")
    assert (found.code, found.ids) == (0, set()), found.text
    assert [host["host"] for host in found.said["hosts"]] == [f"host{h}" for h in range(4)]
    assert "probe" not in found.missed(), found.text


def test_a_host_with_few_descriptors(hosts, tmp_path):
    """Its ranks still come, with so few; a real job's data loaders would not."""
    script = 'if [ "$RANK" = 1 ]; then exec prlimit --nofile=64:64 "$@"; else exec "$@"; fi'
    words = ["sh", "-c", script, "sh", str(BINARY), "doctor", "--all-hosts", "--json"]
    words += ["--rendezvous", f"file://{tmp_path}/store", "--ignore", "shm-small"]
    found = found_of(run_on(hosts, words, environment(XDG_CACHE_HOME=str(tmp_path))))
    assert found.ids == {"files-limit"} and found.hosts == {"host1"}, found.text
    assert "64 open files for 4 ranks" in found.text


@measures_again
def test_a_slow_link_is_named(hosts, tmp_path):
    def right(found) -> bool:
        rates = [slow["bytes_per_s"] for slow in found.said["matrix"]["slow"]]
        return rates == [pytest.approx(MBIT / 4 * 1e6 / 8, rel=0.15)]

    hosts.slow_down(2, 3, MBIT / 4)
    try:
        (found,) = first_right(
            lambda: (on_all(hosts, tmp_path, "--probe", "--ignore", "shm-small"),), right
        )
    finally:
        hosts.slow_down(2, 3, MBIT)
    assert found.ids == {"probe-slow-pair"} and found.hosts == {"host2, host3"}, found.text
    assert found.code == 2
    assert right(found), found.text


def test_a_cable_with_a_small_mtu(hosts, tmp_path):
    """It takes packets of 1500 bytes only, though the hosts' own interfaces have 9000."""
    a, b = hosts.namespaces[:2]
    networks.command("ip", "-n", a, "link", "set", "to1", "mtu", "1500")
    networks.command("ip", "-n", b, "link", "set", "to0", "mtu", "1500")
    try:
        found = on_all(hosts, tmp_path, "--probe", "--ignore", "shm-small,probe-slow-pair")
    finally:
        for name, link in ((a, "to1"), (b, "to0")):
            networks.command("ip", "-n", name, "link", "set", link, "mtu", "9000")
    assert found.ids == {"probe-mtu"} and found.hosts == {"host0, host1"}, found.text


@measures_again
def test_ranks_of_a_host_wait_for_the_one_that_watches(tmp_path):
    ranks = [environment(RANK=r, WORLD_SIZE="2", LOCAL_RANK=r, LOCAL_WORLD_SIZE="2") for r in "01"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}

    def check(limit_s):
        words = [str(BINARY), "doctor", "--all-hosts", "--json", "-T", f"{limit_s:g}"]
        words += ["--watch", f"{1.5 * limit_s:g}", "--rendezvous", f"file://{tmp_path}/{limit_s}"]
        started = [subprocess.Popen(words, env=one, **pipes) for one in ranks]
        out, err = started[0].communicate(timeout=PATIENCE_S)
        started[1].communicate(timeout=PATIENCE_S)
        assert started[0].returncode in (0, 1, 2), err
        said = json.loads(out)
        assert not {"hosts", "second-sample"} & {one["what"] for one in said["not_checked"]}, err

    growing_limit(check, 4.0)  # both have to come within it


def test_a_host_that_does_not_come(tmp_path):
    words = [str(BINARY), "doctor", "--all-hosts", "-T", "2", "--json"]
    words += ["--rendezvous", f"file://{tmp_path}/store"]
    variables = environment(RANK="0", WORLD_SIZE="2", LOCAL_RANK="0")
    done = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 3, done.stderr
    said = json.loads(done.stdout)
    assert any(one["what"] == "hosts" and "rank" in one["reason"] for one in said["not_checked"])

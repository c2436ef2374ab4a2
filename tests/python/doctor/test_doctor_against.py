"""`ringwood doctor --against`: what has changed since a snapshot was written."""

import json

import pytest
from doctor_rules import RULES_OF_A_TREE
from doctor_runs import change, doctor, no_rdma, raise_counter, raise_statistic, snapshot
from doctor_trees import healthy
from ringwood_command import run


def since(found) -> tuple[list[tuple[str, str, str]], set[str], set[str]]:
    """Changes, and the rules whose findings are new or gone."""
    told = found.said["since"]
    changes = [(one["what"], one["before"], one["after"]) for one in told["changes"]]
    return changes, {one["id"] for one in told["new"]}, {one["id"] for one in told["gone"]}


def test_counters_and_clocks_are_no_change(tmp_path):
    tree = healthy(tmp_path)
    before = snapshot(tree)
    tree.write("proc/uptime", "605800.00 9000.00")
    raise_counter(tree, "counters/port_rcv_packets", 10**9)
    raise_statistic(tree, "tx_prio3_bytes", 10**12)
    found = doctor("--root", tree.root, "--against", before)
    assert since(found) == ([], set(), set())
    assert found.text.endswith("nothing has changed but counters and clocks\n")


@pytest.mark.parametrize("rule", RULES_OF_A_TREE)
def test_every_planted_fault_is_a_change_and_a_new_finding(rule, tmp_path):
    tree = healthy(tmp_path)
    before = snapshot(tree, "before")
    RULES_OF_A_TREE[rule](tree)
    after = snapshot(tree, "after")
    if rule != "link-flapping":  # which is a counter
        changes, new, gone = since(doctor("--from", after, "--against", before))
        assert changes and (new, gone) == ({rule}, set())
    changes, new, gone = since(doctor("--from", before, "--against", after))
    assert (new, gone) == (set(), {rule})


def test_the_same_fault_of_another_port_is_new(tmp_path):
    """And the old one's stays what it was, whatever its figures."""
    tree = healthy(tmp_path)
    tree.write("sys/class/net/rail0/carrier_changes", 400)
    before = snapshot(tree, "before")
    tree.write("sys/class/net/rail0/carrier_changes", 500)
    more = snapshot(tree, "more")
    assert since(doctor("--from", more, "--against", before))[1:] == (set(), set())
    tree.write("sys/class/net/rail1/carrier_changes", 400)
    both = snapshot(tree, "both")
    told = doctor("--from", both, "--against", before).said["since"]
    assert [one["id"] for one in told["new"]] == ["link-flapping"] and told["gone"] == []


def test_a_change_names_the_thing_and_both_values(tmp_path):
    tree = healthy(tmp_path)
    before = snapshot(tree)
    tree.write("sys/class/net/rail1/mtu", 1500)
    tree.write("sys/class/infiniband/mlx5_0/fw_ver", "20.31.1014")
    tree.environment(NCCL_IB_HCA="mlx5_0", RINGWOOD_VERBS_TRAFFIC_CLASS="106")
    found = doctor("--root", tree.root, "--against", before)
    old = json.loads(before.read_text())
    changes, _, _ = since(found)
    assert ("interface rail1: mtu", "9000", "1500") in changes
    firmware = old["ports"][0]["firmware"]
    assert ("port mlx5_0/1: firmware", firmware, "20.31.1014") in changes
    assert ("environment: NCCL_IB_HCA", "absent", "mlx5_0") in changes
    assert "  host1  interface rail1: mtu: 9000 -> 1500\n" in found.text


def test_what_came_and_went(tmp_path):
    tree = healthy(tmp_path)
    before = snapshot(tree)
    no_rdma(tree)
    changes, _, _ = since(doctor("--root", tree.root, "--against", before))
    for port in ("mlx5_0/1", "mlx5_1/1"):
        assert (f"port {port}", "there", "absent") in changes


def test_hosts_are_compared_with_their_namesakes(tmp_path):
    files = [snapshot(healthy(tmp_path, host)) for host in (1, 2, 3)]
    both = tmp_path / "both.json"
    both.write_text(json.dumps([json.loads(file.read_text()) for file in files[:2]]))
    change(files[1], ["interfaces", 0, "mtu"], 1234)
    found = doctor("--from", *files[1:], "--against", both)
    told = {(one["host"], one["what"], one["after"]) for one in found.said["since"]["changes"]}
    name = json.loads(files[1].read_text())["interfaces"][0]["name"]
    assert told == {
        ("host2", f"interface {name}: mtu", "1234"),
        ("host3", "", "there"),
        ("host1", "", "absent"),
    }


def test_a_page_has_the_changes(tmp_path):
    tree = healthy(tmp_path)
    before = snapshot(tree)
    tree.write("sys/class/net/rail1/mtu", 1500)
    page = tmp_path / "page.html"
    doctor("--root", tree.root, "--against", before, "--html", page)
    assert "interface rail1: mtu" in page.read_text()


@pytest.mark.parametrize("kind", ["absent", "folder", "words"])
def test_what_is_no_snapshot_is_refused_before_anything_is_read(kind, tmp_path):
    file = tmp_path / kind
    if kind == "folder":
        file.mkdir()
    elif kind == "words":
        file.write_text("some words")
    done = run("doctor", "--against", str(file))
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.startswith(f"ringwood: --against {file}")
    assert done.stderr.count("\n") == 1

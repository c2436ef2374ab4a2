"""`ringwood doctor --anonymous`: no names and addresses of hosts, and the same findings."""

import ipaddress
import json
import re

import pytest
from doctor_rules import RULES_OF_A_TREE
from doctor_runs import doctor, snapshot
from doctor_trees import healthy
from test_doctor_hosts import RULES_OF_HOSTS

# Texts of the fixtures that would tell whose they are.
TELLING = re.compile(r"vault\d|/scratch/|/dev/sda1")
# Of networks, of GIDs that contain them, and of cards. Whole ones: of 256 keys one leaves 10.10 as
# it is.
ADDRESS = re.compile(
    r"\b(?:10|192)\.\d+\.\d+\.\d+\b|ffff:0a[0-9a-f]{2}:[0-9a-f]{4}|fe80:0000:0000:0000:[0-9a-f:]+"
)


def named(tree, host: int = 1):
    """The host of a tree with a name that no sentence of ours has."""
    tree.write("etc/hostname", f"vault{host}")
    tree.replace("etc/hosts", f"host{host}", f"vault{host}")
    return tree


def anonymous(*words: object, folder) -> tuple[set[str], str, object]:
    """The rules that fired, all that was written, and the snapshot."""
    file, page = folder / "anonymous.json", folder / "anonymous.html"
    found = doctor(*words, "--anonymous", "--snapshot", file, "--html", page)
    written = [json.dumps(found.said), found.text, file.read_text(), page.read_text()]
    return found.ids, "\n".join(written), file


@pytest.mark.parametrize("rule", RULES_OF_A_TREE)
def test_findings_stay_and_names_go(rule, tmp_path):
    tree = healthy(tmp_path)
    RULES_OF_A_TREE[rule](tree)
    named(tree)
    if rule == "name-loopback":
        tree.environment(MASTER_ADDR="vault1", RINGWOOD_VERBS_TRAFFIC_CLASS="106")
    original = snapshot(tree).read_text()
    assert TELLING.search(original) and ADDRESS.search(original)
    ids, written, file = anonymous("--root", tree.root, folder=tmp_path)
    assert ids == {rule}
    assert not TELLING.findall(written)
    assert not {*ADDRESS.findall(original)} & {*ADDRESS.findall(written)}
    # Whoever gets the file finds the same.
    assert doctor("--from", file).ids == {rule}


@pytest.mark.parametrize("rule", RULES_OF_HOSTS)
def test_what_differs_between_hosts_is_still_found(rule, tmp_path):
    trees = [healthy(tmp_path, host) for host in (1, 2, 3)]
    RULES_OF_HOSTS[rule](trees[2])
    files = [snapshot(named(tree, host)) for host, tree in enumerate(trees, 1)]
    ids, written, file = anonymous("--from", *files, folder=tmp_path)
    assert ids == {rule}
    assert not TELLING.findall(written)
    originals = "".join(file.read_text() for file in files)
    assert not {*ADDRESS.findall(originals)} & {*ADDRESS.findall(written)}
    found = doctor("--from", file)
    assert found.ids == {rule}
    if rule != "hosts-address-family":
        assert found.hosts == {"host3"}


def test_networks_stay_networks(tmp_path):
    files = [snapshot(healthy(tmp_path, host)) for host in (1, 2)]
    _, _, file = anonymous("--from", *files, folder=tmp_path)
    hosts = json.loads(file.read_text())
    rails = [
        {
            one["name"]: ipaddress.ip_interface(one["addresses"][0])
            for one in host["interfaces"]
            if one["addresses"]
        }
        for host in hosts
    ]
    for rail in ("rail0", "rail1", "eth0"):
        assert rails[0][rail].network == rails[1][rail].network
        assert rails[0][rail].ip != rails[1][rail].ip
    assert rails[0]["rail0"].network != rails[0]["rail1"].network
    assert str(rails[0]["lo"]) == "127.0.0.1/8"
    # A GID is the address of its interface, as before.
    (port,) = (one for one in hosts[0]["ports"] if one["device"] == "mlx5_0")
    last = ipaddress.ip_address(port["gids"][3]["address"]).ipv4_mapped
    assert last == rails[0]["rail0"].ip


def test_two_runs_have_other_addresses(tmp_path):
    file = snapshot(healthy(tmp_path))
    texts = []
    for _ in range(2):
        _, _, written = anonymous("--from", file, folder=tmp_path)
        texts.append(written.read_text())
    assert texts[0] != texts[1]


def test_changes_are_told_without_names(tmp_path):
    tree = named(healthy(tmp_path))
    before = snapshot(tree)
    tree.write("sys/class/net/rail1/mtu", 1500)
    found = doctor("--root", tree.root, "--against", before, "--anonymous")
    (one,) = [c for c in found.said["since"]["changes"] if c["what"].endswith("rail1: mtu")]
    assert (one["host"], one["before"], one["after"]) == ("host1", "9000", "1500")
    # Both are changed alike, so no address is a change.
    assert not [c for c in found.said["since"]["changes"] if "addresses" in c["what"]]


def test_paths_and_the_command_line_of_the_kernel_are_left_out(tmp_path):
    tree = healthy(tmp_path)
    tree.environment(RINGWOOD_TRACE_DIR="/scratch/alice/traces", RINGWOOD_VERBS_TRAFFIC_CLASS="106")
    _, written, file = anonymous("--root", tree.root, folder=tmp_path)
    assert "alice" not in written
    assert json.loads(file.read_text())["system"]["command_line"] == "intel_iommu=on iommu=pt"

"""`ringwood doctor`: every rule has a host on which it alone fires; healthy hosts have none."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from doctor_gpus import add_gpus
from doctor_rules import RULES_OF_A_SNAPSHOT, RULES_OF_A_TREE, RULES_OF_COUNTERS
from doctor_runs import (
    PORT,
    change,
    doctor,
    port_down,
    raise_counter,
    raise_statistic,
    snapshot,
    two_samples,
)
from doctor_trees import add_gpu, healthy
from ringwood_command import run
from test_doctor_hosts import RULES_OF_HOSTS

ROOT = Path(__file__).resolve().parents[3]
EXIT_OF = {"error": 2, "warning": 1, "note": 0}


@pytest.mark.parametrize("rule", RULES_OF_A_TREE)
def test_a_rule_fires_alone(rule, tmp_path):
    tree = healthy(tmp_path)
    RULES_OF_A_TREE[rule](tree)
    found = doctor("--root", tree.root)
    assert found.ids == {rule}, found.text
    assert found.code == max(EXIT_OF[one["severity"]] for one in found.said["findings"])
    for one in found.said["findings"]:
        assert one["host"] == "host1" and one["evidence"] and one["fix"]


def test_a_healthy_host_has_no_finding(tmp_path):
    tree = healthy(tmp_path)
    found = doctor("--root", tree.root)
    assert (found.code, found.ids) == (0, set()), found.text
    assert set(found.missed()) == {"gpu", "probe", "second-sample", "verbs-library"}, found.text
    add_gpu(tree)
    found = doctor("--root", tree.root)
    assert (found.code, found.ids) == (0, set()), found.text
    (host,) = found.said["hosts"]
    assert [rail["gid"] for rail in host["rails"]] == ["[3] 10.10.0.1", "[3] 10.10.1.1"]
    assert {rail["dscp_to_priority"] for rail in host["rails"]} == {"26 -> 3"}


@pytest.mark.parametrize("rule", RULES_OF_A_SNAPSHOT)
def test_a_rule_fires_alone_on_a_snapshot(rule, tmp_path):
    file = snapshot(healthy(tmp_path))
    change(file, ["ports", 0, "device"], "mlx5_10")
    assert doctor("--from", file).ids == {"rdma-driver"} - {"rdma-driver"}
    change(file, *RULES_OF_A_SNAPSHOT[rule])
    found = doctor("--from", file)
    assert found.ids == {rule}, found.text


@pytest.mark.parametrize("rule", RULES_OF_COUNTERS)
def test_a_counter_that_rises_is_found(rule, tmp_path):
    found = doctor("--from", *two_samples(healthy(tmp_path), RULES_OF_COUNTERS[rule]))
    assert found.ids == {rule}, found.text
    assert "in 10 s" in found.text or "of the time" in found.text or "bytes" in found.text


def test_traffic_without_faults_has_no_finding(tmp_path):
    def traffic(tree) -> None:
        raise_statistic(tree, "tx_prio3_bytes", 10**12)
        raise_statistic(tree, "tx_prio0_bytes", 10**8)  # others'
        raise_counter(tree, "counters/port_rcv_packets", 10**8)
        raise_counter(tree, "hw_counters/out_of_sequence", 9)
        raise_counter(tree, "hw_counters/np_ecn_marked_roce_packets", 1000)
        raise_counter(tree, "hw_counters/np_cnp_sent", 900)

    found = doctor("--from", *two_samples(healthy(tmp_path), traffic))
    assert (found.code, found.ids) == (0, set()), found.text
    assert "second-sample" not in found.missed()


def test_every_rule_has_a_case_and_a_row_in_the_readme():
    listed = run("doctor", "--rules").stdout
    ids = re.findall(r"^\| `([a-z0-9-]+)` \|", listed, re.MULTILINE)
    elsewhere = {
        *("rdma-required", "hosts-route", "hosts-gid-index", "hosts-interface-mtu"),
        *(
            "hosts-version",
            "hosts-clock",
            "hosts-notifications",
            "host-pauses",
            "bond-uneven",
            "probe-slow-pair",
            "probe-mtu",
            "probe-unreachable",
            "probe-over-tcp",
            "hosts-unreachable",
            "cluster-file",
        ),
    }
    cases = {*RULES_OF_A_TREE, *RULES_OF_A_SNAPSHOT, *RULES_OF_COUNTERS, *RULES_OF_HOSTS}
    assert set(ids) == cases | elsewhere and len(ids) == len(set(ids))
    assert listed in (ROOT / "tools" / "doctor" / "README.md").read_text()
    for rule in ids:
        told = run("doctor", "--explain", rule)
        assert told.returncode == 0 and told.stdout.startswith(f"{rule} ("), told.stderr


@pytest.mark.parametrize(
    "lines, evidence",
    [
        ("hosts = 16x8\nrails = 2\nrdma = true\nnic = 50G\nleaf = 4\npost = 2e-7\n", None),
        ("rails = 8", "2 active RDMA ports, and rails = 8 in the file"),
        ("nic = 400G", "400 Gbit/s in 2 ports, and nic = 3200 Gbit/s in the file"),
    ],
)
def test_a_host_is_held_against_the_cluster_file(lines, evidence, tmp_path):
    file = tmp_path / "cluster.txt"
    file.write_text(lines)
    found = doctor("--root", healthy(tmp_path).root, "--cluster", file)
    assert found.ids == ({"cluster-file"} if evidence else set()), found.text
    assert evidence is None or evidence in found.text
    shown = "leaf, post of --cluster" in found.text
    assert shown == ("leaf" in lines), found.text
    assert ("hosts of --cluster" in found.text) == ("hosts" in lines), found.text


def test_what_the_cluster_file_says_is_missed_where_there_is_no_rdma(tmp_path):
    tree = healthy(tmp_path)
    one = snapshot(tree)
    other = tmp_path / "other.json"
    other.write_text(one.read_text().replace("host1", "host2"))
    file = tmp_path / "cluster.txt"
    file.write_text("hosts = 3\nrdma = true\n")
    found = doctor("--from", one, other, "--cluster", file)
    assert "2 hosts were looked at, and the file has 3" in found.text
    for rail in (0, 1):
        change(other, ["ports", rail, "state"], "DOWN")
    found = doctor("--from", other, "--cluster", file)
    assert "the file says rdma = true, and no RDMA port can be used" in found.text
    assert "one host was looked at" in found.text and "rails of --cluster" not in found.text
    file.write_text("rails = 2\nnic = 50G\n")
    found = doctor("--from", other, "--cluster", file)
    assert "rails of --cluster" in found.text and "nic of --cluster" in found.text
    file.write_text("rails = many\n")
    refused = run("doctor", "--from", str(one), "--cluster", str(file))
    assert refused.returncode != 0 and "cluster.txt:1" in refused.stderr


# What a rule needs, taken away, is listed with that rule.
@pytest.mark.parametrize(
    ("path", "what", "rule"),
    [
        ("sos_commands/networking/mlnx_qos_-i_rail1", "dcb of rail1", "pfc-other-priority"),
        ("sos_commands/networking/ethtool_-a_rail1", "pause of rail1", "global-pause"),
        ("sos_commands/networking/ethtool_-S_rail1", "ethtool-statistics of rail1", "pause-storm"),
        ("sos_commands/networking/lspci_-vvv", "pci-capabilities", "pcie-read-request"),
        ("sos_commands/networking/nft_list_ruleset", "firewall", "udp-4791-filtered"),
        ("sos_commands/networking/ip_-o_addr", "addresses", "arp-flux"),
        ("proc/self/limits", "limits", "memlock"),
        ("proc/self/status", "capabilities", "memlock"),
        ("proc/self/environ", "environment", "env-unknown"),
        ("proc/self/net/route", "routes", "hosts-route"),
        ("proc/cmdline", "command-line", "iommu-translating"),
        ("proc/mounts", "shm", "shm-small"),
        ("proc/sys/fs/file-nr", "open-files", "files-full"),
        ("proc/net/stat/arp_cache", "neighbours", "neighbour-table"),
        ("proc/sys/vm/overcommit_memory", "overcommit", "overcommit-strict"),
        ("sys/devices/system/cpu", "governor", "cpu-governor"),
        ("proc/self/cgroup", "control-group", "memory-limit"),
        ("sys/fs/cgroup/job/memory.stat", "memory-limit", "memory-limit"),
        ("sys/fs/cgroup/job/memory.current", "memory-limit", "memory-limit"),
        ("sys/fs/cgroup/job/pids.current", "pids-limit", "pids-limit"),
        ("proc/meminfo", "huge-pages", "huge-pages-idle"),
        ("etc/hosts", "names", "name-loopback"),
        (f"{PORT}/state", "port-state of mlx5_1/1", "port-down"),
    ],
)
def test_what_could_not_be_read_is_listed(path, what, rule, tmp_path):
    tree = healthy(tmp_path)
    tree.remove(path)
    found = doctor("--root", tree.root)
    (missed,) = (one for one in found.said["not_checked"] if one["what"] == what)
    assert rule in missed["rules"] and missed["reason"] and missed["host"] == "host1"


def test_a_tree_of_nothing_could_not_be_checked(tmp_path):
    found = doctor("--root", tmp_path)
    assert (found.code, found.ids) == (3, set()), found.text


def test_other_tools_tell_the_same(tmp_path):
    tree = healthy(tmp_path)
    tree.remove("sos_commands/networking/mlnx_qos_-i_rail1")
    tree.printed(
        "dcb pfc show dev rail1",
        "pfc-cap 8 macsec-bypass off delay 0\nprio-pfc 0:off 1:off 2:off 3:on 4:off 5:off",
    )
    tree.printed("dcb app show dev rail1", "default-prio 0\ndscp-prio CS0:0 AF31:3 EF:5 CS6:6")
    tree.remove("sos_commands/networking/mlnx_qos_-i_rail0")
    tree.printed(
        "lldptool -t -i rail0 -V PFC",
        "IEEE 8021QAZ PFC TLV\n\t Willing: no\n\t PFC capable: 8\n\t PFC enabled: 4",
    )
    tree.printed("lldptool -t -i rail0 -V APP", "App#0:\n\t Priority: 4\n\t Sel: 5\n\t DSCP: 26")
    found = doctor("--root", tree.root)
    assert found.ids == set(), found.text
    rails = found.said["hosts"][0]["rails"]
    assert [rail["dscp_to_priority"] for rail in rails] == ["26 -> 4", "26 -> 3"]


def test_fix_prints_commands_and_runs_none(tmp_path):
    tree = healthy(tmp_path)
    port_down(tree)
    before = sorted(tmp_path.rglob("*"))
    done = run("doctor", "--root", str(tree.root), "--fix")
    assert done.returncode == 2
    assert "# on host1" in done.stdout and "\nip link set rail1 up\n" in done.stdout
    assert sorted(tmp_path.rglob("*")) == before


def test_ignored_rules_are_listed(tmp_path):
    tree = healthy(tmp_path)
    port_down(tree)
    found = doctor("--root", tree.root, "--ignore", "port-down")
    assert (found.code, found.ids) == (0, set())
    assert "ignored" in found.missed()


def test_a_page_for_a_browser(tmp_path):
    tree = healthy(tmp_path)
    port_down(tree)
    page = tmp_path / "page.html"
    run("doctor", "--root", str(tree.root), "--html", str(page))
    assert "port-down" in page.read_text() and "mlx5_1/1 is DOWN" in page.read_text()


def spoil(file: Path, chance: random.Random, outside: Path) -> None:
    noise = [
        *(b"", b"\xff\xfe\0\0", b"99999999999999999999999", b"-1", b"0x", b"[", b"{" * 5000),
        *(b"a" * 3_000_000, b": : :\n" * 999, b"1\n2\n" * 99, b"prio:9 dscp:77,-3,\ntc: -5\n"),
    ]
    file.unlink()
    kind = chance.random()
    if kind < 0.8:
        file.write_bytes(chance.choice(noise))
    elif kind < 0.87:
        file.symlink_to(outside)
    elif kind < 0.94:
        os.mkfifo(file)
    else:
        file.symlink_to(file.name)


def test_files_of_anybody(tmp_path):
    """Whatever is in a tree, it is read within bounds, and the result is a diagnosis."""
    chance = random.Random(4791)
    outside = tmp_path / "outside"
    outside.write_text("eyes-only: 4711")
    for attempt in range(6):
        tree = add_gpus(healthy(tmp_path / str(attempt)))
        files = [f for f in sorted(tree.root.rglob("*")) if f.is_file() and not f.is_symlink()]
        for file in chance.sample(files, len(files) // 3):
            spoil(file, chance, outside)
        assert "eyes-only" not in json.dumps(doctor("--root", tree.root).said)
        assert "eyes-only" not in snapshot(tree).read_text()
    assert outside.read_text() == "eyes-only: 4711"


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]x", "[1]", "{}", '{"format": 2, "host": "a"}', '{"format": 1, "host": 5}'),
        *('{"format": 1, "host": "a", "ports": [{"gids": 7}]}', "[" * 100_000),
    ],
)
def test_a_snapshot_that_is_none_is_refused(text, tmp_path):
    file = tmp_path / "s.json"
    file.write_text(text)
    done = run("doctor", "--from", str(file))
    assert done.returncode == 64 and "is not a snapshot" in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1 and "json.exception" not in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--all-hosts"], "start the command with mpirun"),
        (["--probe"], "start the command with mpirun"),
        (["--root", "/no/such/folder"], "no such folder"),
        (["--pid", "none"], "number of a process"),
        (["--pid", "4194305"], "no process"),
        (["--explain", "gid"], "no rule gid"),
        (["--ignore", "gid"], "no such rule"),
        (["--require", "infiniband"], "verbs only"),
        (["--from", "/no/such/file"], "cannot be read"),
        (["--from", "a.json", "--watch", "1"], "--from reads files only"),
        (["--json", "--fix"], "take standard output"),
        (["--json", "--snapshot", "-"], "take standard output"),
        (["--snapshot", "-", "--fix"], "take standard output"),
    ],
)
def test_refuses(words, told):
    done = run("doctor", *words)
    assert done.returncode == 64 and told in done.stderr, done.stderr


def test_a_program_that_hangs_is_given_up(tmp_path):
    """It closes its output, so that its end is seen, and stays."""
    for name in ("nft", "iptables-save"):
        file = tmp_path / name
        file.write_text("#!/bin/sh\nexec >&-\nexec sleep 3600\n")
        file.chmod(0o755)
    run("doctor", "--snapshot", f"{tmp_path}/s.json", PATH=f"{tmp_path}:{os.environ['PATH']}")
    gaps = json.loads((tmp_path / "s.json").read_text())["gaps"]
    assert any("no answer within 1 s" in gap["reason"] for gap in gaps), gaps


def test_a_process_whose_files_are_nearly_all_open():
    script = "import sys; f = [open('/dev/null') for _ in range(290)]; print(flush=True); input()"
    words = ["prlimit", "--nofile=300:300", sys.executable, "-c", script]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes) as holder:
        holder.stdout.readline()
        found = doctor("--pid", holder.pid, "--ignore", "shm-small")
        holder.communicate("\n")
    assert found.ids == {"files-full"} and found.code == 2, found.text
    assert f"process {holder.pid} has 29" in found.text


def test_this_host_and_a_running_process(tmp_path):
    found = doctor("--watch", "0.2", "--pid", os.getpid())
    assert found.code in (0, 1, 2), found.text
    assert "second-sample" not in found.missed()
    file = tmp_path / "own.json"
    run("doctor", "--snapshot", str(file))
    own = json.loads(file.read_text())
    assert own["system"]["kernel"] == os.uname().release and own["process"]["uid"] == os.getuid()
    lo = next(one for one in own["interfaces"] if one["name"] == "lo")
    assert lo["mtu"] > 0 and "127.0.0.1/8" in lo["addresses"]

"""`ringwood doctor` on hosts that are well and look odd: no finding, or a note."""

import pytest
from doctor_runs import (
    change,
    doctor,
    missed_rules,
    port_down,
    printing,
    raise_statistic,
    snapshot,
    two_samples,
    with_environment,
)
from doctor_trees import NEIGHBOURS, healthy, qos

# As nft prints a host with Docker: its chains are one line each, of forwarded packets.
DOCKER = """table ip filter {
\tchain DOCKER {
\t}

\tchain FORWARD {
\t\ttype filter hook forward priority filter; policy drop;
\t\tcounter packets 0 bytes 0 jump DOCKER
\t}
}
"""

# What no kernel writes into files of limits.
NOISE = (
    "",
    "-1",
    "max max max",
    "9" * 40,
    "oom_kill -3\nmax -3",
    "\x00\xff",
    "HugePages_Free: 9" * 9,
)


def noise_of_limits(text: str):
    def spoil(tree) -> None:
        for file in (tree.root / "sys/fs/cgroup/job").iterdir():
            tree.write(str(file.relative_to(tree.root)), text)
        tree.write("proc/meminfo", text)

    return spoil


def a_limit_without_what_is_used(tree) -> None:
    tree.write("sys/fs/cgroup/job/memory.max", 4096)
    tree.write("sys/fs/cgroup/job/memory.current", "none")
    tree.write("sys/fs/cgroup/job/pids.max", 1)
    tree.write("sys/fs/cgroup/job/pids.current", "none")


def killed_elsewhere(tree) -> None:
    """In a group above that limits nothing: of another session or service."""
    tree.replace("proc/self/cgroup", "0::/job", "0::/user.slice/job")
    tree.write_all("sys/fs/cgroup/user.slice/job", {"memory.max": "max", "pids.max": "max"})
    files = {"memory.max": "max", "memory.events": "oom_kill 7", "pids.events": "max 7"}
    tree.write_all("sys/fs/cgroup/user.slice", files)


def huge_pages_in_use(tree) -> None:
    numbers = "HugePages_Total:    98304\nHugePages_Free:     98304\nHugePages_Rsvd:     97000"
    tree.write("proc/meminfo", f"MemTotal: 527765580 kB\n{numbers}\nHugepagesize: 2048 kB")


def a_table_that_was_full(tree) -> None:
    """Long ago, and it has been enlarged."""
    tree.write("proc/net/stat/arp_cache", NEIGHBOURS.format(42).replace(" 00000000", " 00000007"))


WELL = {
    "a table of neighbours that was full": a_table_that_was_full,
    **{f"noise {i} in limits": noise_of_limits(text) for i, text in enumerate(NOISE)},
    "a limit, and nobody tells what is used": a_limit_without_what_is_used,
    "processes of others were killed": killed_elsewhere,
    "huge pages that a process has asked for": huge_pages_in_use,
    "Docker drops what it would forward": printing("nft list ruleset", DOCKER),
}


@pytest.mark.parametrize("case", WELL)
def test_a_host_that_is_well_has_no_finding(case, tmp_path):
    tree = healthy(tmp_path)
    WELL[case](tree)
    found = doctor("--root", tree.root)
    assert (found.code, found.ids) == (0, set()), found.text


def test_idle_huge_pages_of_another_size(tmp_path):
    """Beside the usual ones, of which there are none."""
    tree = healthy(tmp_path)
    folder = "sys/kernel/mm/hugepages/hugepages-1048576kB"
    tree.write_all(folder, {"nr_hugepages": 64, "free_hugepages": 60, "resv_hugepages": 4})
    assert doctor("--root", tree.root).ids == {"huge-pages-idle"}
    tree.write(f"{folder}/free_hugepages", 4)
    assert doctor("--root", tree.root).ids == set()


DROPS = {
    "nft": ("nft list ruleset", "type filter hook input priority filter; policy drop;"),
    "as sosreport has it": (
        "nft -a list ruleset",
        "type filter hook input priority filter; policy drop;",
    ),
    "iptables-save": ("iptables-save", ":INPUT DROP [0:0]"),
    "a rule": ("nft -a list ruleset", "udp dport 4791 drop # handle 7"),
}


@pytest.mark.parametrize("case", DROPS)
def test_a_filter_that_drops_is_found(case, tmp_path):
    tree = healthy(tmp_path)
    tree.remove("sos_commands/networking/nft_list_ruleset")
    command, rule = DROPS[case]
    tree.printed(command, f"table inet filter {{\n\tchain input {{\n\t\t{rule}\n\t}}\n}}")
    found = doctor("--root", tree.root)
    assert found.ids == {"udp-4791-filtered"}, found.text
    assert "firewall" not in found.missed()


def test_rules_of_routing_are_listed_and_no_error(tmp_path):
    trees = [healthy(tmp_path, host) for host in (1, 2, 3)]
    for tree in trees:
        tree.replace("proc/self/net/route", "rail1\t00010A0A", "rail0\t00010A0A")
    assert doctor("--from", *map(snapshot, trees)).ids == {"hosts-route"}
    for tree in trees:
        file = "sos_commands/networking/ip_-4_rule"
        tree.replace(file, "32766:", "1001:\tfrom 10.10.1.0/24 lookup 101\n32766:")
    found = doctor("--from", *map(snapshot, trees))
    assert (found.code, found.ids) == (0, set()), found.text
    assert "lookup 101" in found.missed()["policy-routing"]
    assert "hosts-route" in missed_rules(found, "policy-routing")


def test_two_samples_of_one_moment(tmp_path):
    """Their counters rose in no time: no share of it can be told."""
    tree = healthy(tmp_path)
    samples = two_samples(tree, lambda t: raise_statistic(t, "tx_prio3_pause_duration", 10**6))
    for file in samples:
        change(file, ["system", "uptime_s"], 0)
    other = healthy(tmp_path, 2)
    samples += two_samples(other, lambda t: raise_statistic(t, "rx_prio3_pause_duration", 10**6))
    found = doctor("--from", *samples)
    assert "host-pauses" not in found.ids, found.text


def two_networks_of_others(tree) -> None:
    """Two ports for management in one network, and none of them a rail."""
    tree.write_all("sys/class/net/eth1", {"mtu": 1500, "flags": "0x1003", "carrier": 1})
    for name in ("eth0", "eth1"):
        tree.write_all(f"proc/sys/net/ipv4/conf/{name}", {"arp_ignore": 0, "rp_filter": 1})
    file = tree.root / "sos_commands/networking/ip_-o_addr"
    line = "9: eth1    inet 192.168.1.77/24 scope global eth1\\       valid_lft forever"
    file.write_text(f"{file.read_text().strip()}\n{line}\n")


def an_unstable_cable_of_others(tree) -> None:
    (tree.root / "sys/class/net/eth0/device").mkdir()
    tree.write("sys/class/net/eth0/carrier_changes", 400)


def a_year_with_a_change_a_week(tree) -> None:
    tree.write("sys/class/net/rail1/carrier_changes", 52)
    tree.write("proc/uptime", "31536000.00 9000.00")


def storage_beside(tree) -> None:
    """The second card is not the job's: neither its state nor its bridging matter."""
    variables = {"NCCL_IB_HCA": "=mlx5_0", "RINGWOOD_VERBS_TRAFFIC_CLASS": "106"}
    tree.environment(**variables)
    tree.printed("mlnx_qos -i rail1", qos(trust="pcp", pfc="0   0   0   0   0   0   0   0"))


def spare_card(tree) -> None:
    tree.environment(NCCL_IB_HCA="mlx5_0", RINGWOOD_VERBS_TRAFFIC_CLASS="106")
    port_down(tree)


# With the rules that may say a word about it.
NOTED = {
    "management ports in one network": (two_networks_of_others, {"arp-flux", "rp-filter"}),
    "a cable that is no rail's": (an_unstable_cable_of_others, {"link-flapping"}),
    "a change a week": (a_year_with_a_change_a_week, set()),
    "a card of storage": (storage_beside, set()),
    "a card that is down, and not the job's": (spare_card, set()),
}


@pytest.mark.parametrize("case", NOTED)
def test_what_is_not_a_rails_is_a_note(case, tmp_path):
    tree = healthy(tmp_path)
    spoil, ids = NOTED[case]
    spoil(tree)
    found = doctor("--root", tree.root)
    assert (found.code, found.ids) == (0, ids), found.text


def test_what_a_job_sets_for_each_host_may_differ(tmp_path):
    trees = [healthy(tmp_path, host) for host in (1, 2)]
    for ranks, tree in zip("48", trees, strict=True):
        with_environment(LOCAL_WORLD_SIZE=ranks, UCX_NET_DEVICES=f"mlx5_{ranks}:1")(tree)
    found = doctor("--from", *map(snapshot, trees))
    assert (found.code, found.ids) == (0, set()), found.text

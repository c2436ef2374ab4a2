"""`ringwood doctor` on hosts whose drivers tell less, or in other words: not silent."""

import shutil

import pytest
from doctor_hosts import broadcom, inbox, intel
from doctor_runs import (
    PORT,
    change,
    doctor,
    memlock,
    missed_rules,
    printing,
    raise_counter,
    raise_statistic,
    snapshot,
    two_samples,
    with_environment,
    writing,
)
from doctor_trees import GIB, healthy


def test_other_drivers_that_are_well_have_no_finding(tmp_path):
    for number, kind in enumerate((inbox, broadcom, intel), 1):
        tree = kind(healthy(tmp_path, number))
        found = doctor("--root", tree.root)
        assert (found.code, found.ids) == (0, set()), found.text
        rails = found.said["hosts"][0]["rails"]
        assert {rail["dscp_to_priority"] for rail in rails} == {"26 -> 3"}


@pytest.mark.parametrize("kind", [inbox, intel])
def test_without_a_row_for_a_dscp_the_vlan_decides(kind, tmp_path):
    tree = kind(healthy(tmp_path), "")
    found = doctor("--root", tree.root)
    assert found.ids == {"dscp-not-trusted"} and found.code == 2, found.text


def test_a_driver_that_does_not_tell_its_trust_is_listed(tmp_path):
    found = doctor("--root", broadcom(healthy(tmp_path), "").root)
    assert (found.code, found.ids) == (0, set()), found.text
    assert "bnxt_en" in found.missed()["trust of rail1"]
    rules = {"dscp-not-trusted", "pfc-other-priority", "ecn-off", "queue-unexpected"}
    assert rules <= missed_rules(found, "trust of rail1")


BNXT_PORT = "sys/class/infiniband/bnxt_re1/ports/1"


def loses(tree) -> None:
    raise_counter(tree, "hw_counters/to_retransmits", 5000, BNXT_PORT)
    raise_counter(tree, "hw_counters/tx_pkts", 10**6, BNXT_PORT)


# What bnxt_re and bnxt_en count.
BROADCOM = {
    "fabric-loss": loses,
    "port-discards": lambda tree: raise_statistic(tree, "rx_discard_packets_cos3", 900),
    "pause-storm": lambda tree: raise_statistic(tree, "pfc_pri3_rx_duration_us", 9_000_000),
    "receiver-slow": lambda tree: raise_counter(tree, "hw_counters/rnr_naks_rcvd", 90, BNXT_PORT),
    "ecn-unanswered": lambda tree: raise_counter(
        tree, "hw_counters/rx_ecn_marked_pkts", 90, BNXT_PORT
    ),
    "queue-unexpected": lambda tree: raise_statistic(tree, "tx_bytes_pri0", 10**9),
    "link-errors": lambda tree: raise_statistic(tree, "rx_fcs_err_frames", 9),
}


@pytest.mark.parametrize("rule", BROADCOM)
def test_a_counter_of_another_driver_is_found(rule, tmp_path):
    found = doctor("--from", *two_samples(broadcom(healthy(tmp_path)), BROADCOM[rule]))
    assert found.ids == {rule}, found.text
    assert not {"loss-counters of bnxt_re1/1", "pause-counters of rail1"} & set(found.missed())


def test_counters_that_a_driver_does_not_have_are_listed(tmp_path):
    found = doctor("--from", *two_samples(intel(healthy(tmp_path)), lambda tree: None))
    assert (found.code, found.ids) == (0, set()), found.text
    for what, rule in (
        ("loss-counters of irdma1/1", "fabric-loss"),
        ("receiver-counters of irdma1/1", "receiver-slow"),
        ("pause-counters of rail1", "pause-storm"),
        ("pause-counters of rail1", "host-pauses"),
        ("priority-counters of rail1", "queue-unexpected"),
    ):
        assert rule in missed_rules(found, what), found.text
    assert "the driver ice counts no" in found.missed()["pause-counters of rail1"]


@pytest.mark.parametrize(("counter", "ids"), [("rd", set()), ("rd_events", {"receiver-slow"})])
def test_a_share_of_the_last_second_is_no_counter(counter, ids, tmp_path):
    tree = healthy(tmp_path)
    samples = two_samples(
        tree, lambda tree: raise_statistic(tree, f"outbound_pci_stalled_{counter}", 12)
    )
    assert doctor("--from", *samples).ids == ids


def group(kind: str):
    def of_both_cards(tree) -> None:
        for number, pci in enumerate(("0000:17:00.0", "0000:86:00.0")):
            folder = f"sys/kernel/iommu_groups/{number}"
            tree.write(f"{folder}/type", kind)
            place = next((tree.root / "sys/devices").glob(f"pci*/*/{pci}"))
            tree.link(f"{place.relative_to(tree.root)}/iommu_group", folder)

    return of_both_cards


def default_domain(tree) -> None:
    """The kernel's own default translates, and the command line has no word of it."""
    tree.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1")
    group("DMA-FQ")(tree)


def rootless(tree) -> None:
    memlock(tree)
    tree.replace("proc/self/status", "CapEff:\t0000000000000000", "CapEff:\t000001ffffffffff")
    tree.write("proc/self/uid_map", "         0       1000          1")


def bound_to_the_second_node(tree) -> None:
    tree.replace("proc/self/status", "Cpus_allowed_list:\t0-7", "Cpus_allowed_list:\t4-7")


def named_and_far(tree) -> None:
    bound_to_the_second_node(tree)
    with_environment(NCCL_IB_HCA="mlx5")(tree)


def killed(tree) -> None:
    """In the group above the process's own, which has a limit."""
    tree.replace("proc/self/cgroup", "0::/job", "0::/pod/job")
    tree.write_all("sys/fs/cgroup/pod/job", {"memory.max": "max", "pids.max": "max"})
    events = "low 0\nhigh 0\nmax 71\noom 3\noom_kill 3\noom_group_kill 0"
    tree.write_all("sys/fs/cgroup/pod", {"memory.max": 64 * GIB, "memory.events": events})


def first_version(tree) -> None:
    """Of control groups: 120 MiB of cache, and 900 MiB that the kernel cannot drop."""
    tree.write("proc/self/cgroup", "8:pids:/job\n4:memory:/job\n0::/")
    stat = "cache 10\ntotal_shmem 5242880\ntotal_inactive_file 62914560\ntotal_active_file 62914560"
    files = {"limit_in_bytes": GIB, "usage_in_bytes": 1020 * 2**20, "stat": stat}
    files["oom_control"] = "oom_kill_disable 0\nunder_oom 0\noom_kill 0"
    tree.write_all("sys/fs/cgroup/memory/job", {f"memory.{key}": files[key] for key in files})
    tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", 9223372036854771712)
    pids = {"pids.max": 1000, "pids.current": 900, "pids.events": "max 0"}
    tree.write_all("sys/fs/cgroup/pids/job", pids)


def nearly_full(tree) -> None:
    first_version(tree)
    tree.write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", 1050 * 2**20)
    tree.write("sys/fs/cgroup/pids/job/pids.current", 950)


FOUND = {
    "processes that were killed": (killed, {"memory-limit"}),
    "threads that could not be made": (
        writing("sys/fs/cgroup/job/pids.events", "max 12"),
        {"pids-limit"},
    ),
    "90 % of what a group of the first version may use": (first_version, set()),
    "a group of the first version": (nearly_full, {"memory-limit", "pids-limit"}),
    "an IOMMU by default": (default_domain, {"iommu-translating"}),
    "a link-local row by a fixed index": (
        with_environment(NCCL_IB_GID_INDEX="1"),
        {"gid-fixed-index"},
    ),
    "a device named exactly": (with_environment(NCCL_IB_HCA="=mlx5_"), {"env-device-absent"}),
    "a port that is not there": (with_environment(NCCL_IB_HCA="mlx5_1:2"), {"env-device-absent"}),
    "capabilities of a user namespace": (rootless, {"memlock"}),
    "a far card that the job names": (named_and_far, {"numa-far"}),
    "a link that the card saw go down": (
        writing(f"{PORT}/counters/link_downed", 500),
        {"link-flapping"},
    ),
    "a link of Ethernet that the card saw": (
        printing("ethtool -S rail1", "NIC statistics:\n     link_down_events_phy: 500"),
        {"link-flapping"},
    ),
}


@pytest.mark.parametrize("case", FOUND)
def test_what_looks_well_and_is_not(case, tmp_path):
    tree = healthy(tmp_path)
    spoil, ids = FOUND[case]
    spoil(tree)
    found = doctor("--root", tree.root)
    assert found.ids == ids, found.text


def test_what_is_in_force_counts_before_what_was_asked_for(tmp_path):
    tree = healthy(tmp_path)
    tree.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz intel_iommu=on")
    group("identity")(tree)
    assert doctor("--root", tree.root).ids == set()


def test_capabilities_of_the_first_namespace_count(tmp_path):
    tree = healthy(tmp_path)
    rootless(tree)
    tree.write("proc/self/uid_map", "         0          0 4294967295")
    assert doctor("--root", tree.root).ids == set()
    tree.remove("proc/self/uid_map")
    found = doctor("--root", tree.root)
    assert "memlock" in missed_rules(found, "capabilities")


@pytest.mark.parametrize("variable", ["NCCL_IB_DISABLE=1", "RINGWOOD_TRANSPORTS=tcp"])
def test_verbs_that_are_required_and_turned_off(variable, tmp_path):
    tree = healthy(tmp_path)
    with_environment(**dict([variable.split("=")]))(tree)
    assert doctor("--root", tree.root).ids == {"env-verbs-off"}
    found = doctor("--root", tree.root, "--require", "verbs")
    assert (found.code, found.ids) == (2, {"rdma-required"}), found.text
    assert variable in found.said["findings"][0]["evidence"]


def test_the_table_shows_the_row_that_a_job_takes(tmp_path):
    tree = healthy(tmp_path)
    with_environment(NCCL_IB_GID_INDEX="1")(tree)
    rails = doctor("--root", tree.root).said["hosts"][0]["rails"]
    assert all(rail["gid"].startswith("[1] fe80") for rail in rails)


# Taken from a tree, it leaves a rule without what it needs.
@pytest.mark.parametrize(
    ("path", "what", "rule"),
    [
        (f"{PORT}/rate", "port-rate of mlx5_1/1", "port-rate"),
        ("sys/class/net/rail1/carrier_changes", "carrier-changes of rail1", "link-flapping"),
        ("sys/class/net/rail1/mtu", "path-mtu of mlx5_1/1", "mtu-small"),
        ("sys/class/net/rail1/ecn", "ecn of rail1", "ecn-off"),
        ("sos_commands/networking/ethtool_--show-fec_rail1", "fec of rail1", "hosts-link-settings"),
        (f"{PORT}/hw_counters", "loss-counters of mlx5_1/1", "fabric-loss"),
        ("sys/bus/pci/devices/0000:86:00.0/numa_node", "numa-node of 0000:86:00.0", "numa-far"),
        ("sys/bus/pci/devices", "pci", "pcie-link"),
        ("sys/devices/system/node", "numa", "numa-far"),
        ("sys/class/net", "interfaces", "interface-choice"),
        ("sos_commands/networking/ip_-4_rule", "policy-routing", "hosts-route"),
    ],
)
def test_what_a_host_does_not_tell_is_listed(path, what, rule, tmp_path):
    tree = healthy(tmp_path)
    full = tree.root / path
    if full.is_dir():
        shutil.rmtree(full)
    else:
        full.unlink()
    assert rule in missed_rules(doctor("--root", tree.root), what)


def test_a_link_that_a_virtual_machine_does_not_see_is_listed(tmp_path):
    tree = healthy(tmp_path)
    tree.remove("sos_commands/networking/lspci_-vvv")
    tree.write("sys/bus/pci/devices/0000:86:00.0/current_link_speed", "Unknown")
    tree.write("sys/bus/pci/devices/0000:86:00.0/numa_node", -1)
    found = doctor("--root", tree.root)
    assert "pcie-link" in missed_rules(found, "pci-link of 0000:86:00.0")
    assert "numa-far" in missed_rules(found, "numa-node of 0000:86:00.0")


def test_rails_of_ipv6_are_listed(tmp_path):
    tree = healthy(tmp_path)
    for index in (2, 3):
        tree.write(f"{PORT}/gids/{index}", "fd00:0000:0000:0001:0000:0000:0000:0003")
    assert "hosts-route" in missed_rules(doctor("--root", tree.root), "ipv4-routes of mlx5_1/1")


def test_a_near_card_is_enough_where_a_job_may_choose(tmp_path):
    tree = healthy(tmp_path)
    bound_to_the_second_node(tree)
    assert doctor("--root", tree.root).ids == set()


def test_every_rank_of_a_host_is_looked_at(tmp_path):
    file = snapshot(healthy(tmp_path))
    near = {"rank": 1, "cores": [0, 1, 2, 3]}
    far = {"rank": 2, "cores": [0], "environment": {"NCCL_IB_HCA": "=mlx5_1"}}
    change(file, ["others"], [near, far])
    found = doctor("--from", file)
    assert found.ids == {"numa-far"}, found.text
    evidence = found.said["findings"][0]["evidence"]
    assert evidence == "rank 2 may run on node 0 only; mlx5_1/1 is at node 1"


def test_a_device_without_a_provider(tmp_path):
    file = snapshot(healthy(tmp_path))
    change(file, ["system", "verbs_library"], "loaded")
    change(file, ["ports", 1, "in_library"], False)
    found = doctor("--from", file)
    assert found.ids == {"rdma-library"} and "does not list mlx5_1" in found.text, found.text


def test_the_choice_of_a_gid_is_told(tmp_path):
    tree = healthy(tmp_path)
    rails = doctor("--root", tree.root).said["hosts"][0]["rails"]
    assert {rail["gid_chosen_as"] for rail in rails} == {"RoCE v2, IPv4"}
    with_environment(NCCL_IB_GID_INDEX="3")(tree)
    rails = doctor("--root", tree.root).said["hosts"][0]["rails"]
    assert {rail["gid_chosen_as"] for rail in rails} == {"NCCL_IB_GID_INDEX=3"}


def test_loss_is_told_with_what_was_sent(tmp_path):
    tree = healthy(tmp_path)
    tree.write(f"{PORT}/counters/port_xmit_data", 0)

    def lose(tree) -> None:
        raise_counter(tree, "hw_counters/out_of_sequence", 500)
        raise_counter(tree, "counters/port_rcv_packets", 10**5)
        raise_counter(tree, "counters/port_xmit_data", 25 * 10**8)

    found = doctor("--from", *two_samples(tree, lose))
    assert found.ids == {"fabric-loss"} and "in 10 s, 1 GB/s sent" in found.text, found.text

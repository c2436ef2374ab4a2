"""Hosts unlike that of doctor_trees: other drivers, virtual machines, bonds, policy routing.

Names of files and counters are those of the kernel's drivers: mlx5, bnxt_en and bnxt_re, ice and
irdma (drivers/net/ethernet, drivers/infiniband/hw).
"""

import shutil

from doctor_trees import PRIORITIES, Tree

DCB_PFC = (
    "pfc-cap 8 macsec-bypass off delay 0\nprio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off"
)


def bridging(tree: Tree, applications: str) -> None:
    """What iproute2's dcb prints in place of MLNX_OFED's mlnx_qos."""
    for rail in (0, 1):
        tree.remove(f"sos_commands/networking/mlnx_qos_-i_rail{rail}")
        tree.printed(f"dcb pfc show dev rail{rail}", DCB_PFC)
        tree.printed(f"dcb app show dev rail{rail}", applications)


def without_ofed(tree: Tree) -> None:
    """Only MLNX_OFED has these folders in /sys/class/net."""
    for rail in (0, 1):
        shutil.rmtree(tree.root / f"sys/class/net/rail{rail}/ecn")


def inbox(tree: Tree, applications: str = "default-prio 0\ndscp-prio AF31:3") -> Tree:
    """The kernel's own mlx5 driver."""
    bridging(tree, applications)
    without_ofed(tree)
    return tree


# bnxt_re_stat_descs, those that rules know and some of the others.
BNXT_RE = (
    *("active_qps", "rx_pkts", "rx_bytes", "tx_pkts", "tx_bytes", "recoverable_errors"),
    *("rx_roce_errors", "rx_roce_discards", "to_retransmits", "seq_err_naks_rcvd"),
    *("max_retry_exceeded", "rnr_naks_rcvd", "missing_resp", "dup_req", "oos_drop_count"),
    *("rx_out_of_buffer", "tx_cnp_pkts", "rx_cnp_pkts", "rx_ecn_marked_pkts"),
)
# bnxt_en, of ethtool -S.
BNXT_EN = (
    *("[0]: rx_ucast_packets", "rx_total_ring_discards", "rx_fcs_err_frames", "rx_stat_discard"),
    *("link_down_events", "continuous_pause_events", "rx_pcs_symbol_err", "rx_corrected_bits"),
    *(f"pfc_pri{p}_{way}_duration_us" for p in PRIORITIES for way in ("rx", "tx")),
    *(f"rx_discard_packets_cos{p}" for p in PRIORITIES),
    *(f"{way}_bytes_pri{p}" for p in PRIORITIES for way in ("rx", "tx")),
)
# irdma_hw_stat_descs of the second generation, and ice.
IRDMA = ("rxVlanErrors", "ip4InDiscards", "ip4InPkts", "RxUDP", "TxUDP", "cnpHandled", "cnpIgnored")
IRDMA += ("cnpSent", "RxECNMrkd", "InRdmaWrites", "OutRdmaWrites")
ICE = ("rx_bytes", "rx_dropped.nic", "rx_crc_errors.nic", "link_xoff_rx.nic")
ICE += tuple(f"{way}_priority_{p}_xoff.nic" for p in PRIORITIES for way in ("rx", "tx"))


def other_cards(tree: Tree, drivers: tuple[str, str], counters: tuple, applications: str) -> Tree:
    (net, rdma), (statistics, hardware) = drivers, counters
    bridging(tree, applications)
    without_ofed(tree)
    for rail in (0, 1):
        device = tree.root / f"sys/class/infiniband/mlx5_{rail}"
        port = f"{device.relative_to(tree.root)}/ports/1"
        for folder in ("hw_counters", "counters"):
            shutil.rmtree(tree.root / port / folder)
        tree.write_all(f"{port}/hw_counters", dict.fromkeys(hardware, 7))
        device.rename(device.with_name(f"{rdma}{rail}"))
        tree.write(f"sys/class/infiniband_verbs/uverbs{rail}/ibdev", f"{rdma}{rail}")
        lines = "\n".join(f"     {name}: 7" for name in statistics)
        tree.printed(f"ethtool -S rail{rail}", f"NIC statistics:\n{lines}")
        tree.printed(f"ethtool -i rail{rail}", f"driver: {net}\nfirmware-version: 230.0.0.0")
        driver = next(
            (tree.root / "sys/devices").glob(f"pci*/*/*:{('17', '86')[rail]}:00.0/driver")
        )
        driver.unlink()
        place = str(driver.relative_to(tree.root))
        (tree.root / f"sys/bus/pci/drivers/{net}").mkdir(parents=True, exist_ok=True)
        tree.link(place, f"sys/bus/pci/drivers/{net}")
    return tree


def broadcom(tree: Tree, applications: str = "default-prio 0\ndscp-prio AF31:3") -> Tree:
    return other_cards(tree, ("bnxt_en", "bnxt_re"), (BNXT_EN, BNXT_RE), applications)


def intel(tree: Tree, applications: str = "default-prio 0\ndscp-prio AF31:3") -> Tree:
    return other_cards(tree, ("ice", "irdma"), (ICE, IRDMA), applications)


def lag(tree: Tree, hash_policy: str = "layer3+4 1") -> Tree:
    """One RDMA device for both cards' ports, as mlx5 makes it of a bond."""
    for folder in ("infiniband/mlx5_1", "infiniband_verbs/uverbs1"):
        shutil.rmtree(tree.root / "sys/class" / folder)
    device = tree.root / "sys/class/infiniband/mlx5_0"
    for file in (device / "ports/1/gid_attrs/ndevs").iterdir():
        file.write_text("bond0\n")
    device.rename(device.with_name("mlx5_bond_0"))
    tree.write("sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_bond_0")
    bond = "sys/class/net/bond0"
    tree.write_all(bond, {"mtu": 9000, "flags": "0x1403", "carrier": 1, "carrier_changes": 2})
    slaves = {"mode": "802.3ad 4", "xmit_hash_policy": hash_policy, "slaves": "rail0 rail1"}
    tree.write_all(f"{bond}/bonding", slaves)
    for rail in (0, 1):
        shutil.rmtree(tree.root / f"proc/sys/net/ipv4/conf/rail{rail}")
    addresses = "sos_commands/networking/ip_-o_addr"
    tree.replace(addresses, "rail0", "bond0")
    tree.write(addresses, (tree.root / addresses).read_text().split("4: rail1")[0].strip())
    tree.replace("proc/self/net/route", "rail0", "bond0")
    tree.environment(RINGWOOD_VERBS_TRAFFIC_CLASS="106", RINGWOOD_VERBS_QPS="4")
    return tree


def virtual_machine(tree: Tree) -> Tree:
    """A virtual function for TCP, and nothing of RDMA: ena, as clouds have it."""
    for folder in ("class/infiniband", "class/infiniband_verbs", "class/net/rail0"):
        shutil.rmtree(tree.root / "sys" / folder)
    shutil.rmtree(tree.root / "sys/class/net/rail1")
    for pci in (*("0000:16:00.0", "0000:17:00.0"), *("0000:85:00.0", "0000:86:00.0")):
        tree.remove(f"sys/bus/pci/devices/{pci}")
    place = "sys/devices/pci0000:00/0000:00:05.0"
    files = {"class": "0x020000", "vendor": "0x1d0f", "device": "0xec20", "numa_node": -1}
    tree.write_all(place, files)
    tree.link("sys/bus/pci/devices/0000:00:05.0", place)
    tree.link("sys/class/net/eth0/device", place)
    for file in (tree.root / "sos_commands/networking").iterdir():
        if "rail" in file.name or "lspci" in file.name:
            file.unlink()
    addresses = "sos_commands/networking/ip_-o_addr"
    tree.write(addresses, (tree.root / addresses).read_text().split("3: rail0")[0].strip())
    tree.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/nvme0n1p1")
    return tree

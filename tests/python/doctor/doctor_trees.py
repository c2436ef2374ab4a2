"""Copies of what hosts have in /sys and /proc, and of what their tools print, for test_doctor.

`healthy` makes the tree of a host with two RoCE cards of 200 Gbit/s, one per processor, whose
settings are all as they should be; tests change one thing in it. Formats are those of the kernel
(sysfs, procfs), ethtool, mlnx_qos, dcb, lspci, ip and nft; commands' outputs lie where sosreport
puts them.
"""

import shutil
from pathlib import Path

EMPTY_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
PRIORITIES = range(8)
GIB = 2**30
NIC_CLASS, GPU_CLASS, BRIDGE_CLASS = "0x020000", "0x030200", "0x060400"


class Tree:
    """Files of a host below a folder."""

    def __init__(self, root: Path):
        self.root = root

    def write(self, path: str, text: object) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.is_symlink():
            file.unlink()
        file.write_text(f"{text}\n")

    def write_all(self, folder: str, files: dict[str, object]) -> None:
        for name, text in files.items():
            self.write(f"{folder}/{name}", text)

    def link(self, path: str, to: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(Path(*[".."] * path.count("/"), to))

    def remove(self, path: str) -> None:
        if (self.root / path).is_dir() and not (self.root / path).is_symlink():
            shutil.rmtree(self.root / path)
        else:
            (self.root / path).unlink()

    def replace(self, path: str, old: str, new: str) -> None:
        file = self.root / path
        text = file.read_text()
        assert old in text, (old, text)
        file.write_text(text.replace(old, new))

    def printed(self, command: str, text: str, plugin: str = "networking") -> None:
        name = command.translate(str.maketrans(" /,=", "____"))
        self.write(f"sos_commands/{plugin}/{name}", text)

    def environment(self, **variables: str) -> None:
        text = "\0".join(f"{name}={value}" for name, value in variables.items())
        (self.root / "proc/self/environ").write_text(f"PATH=/bin\0{text}\0")


def gid_of(address: str) -> str:
    a, b, c, d = (int(part) for part in address.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"


def qos(trust: str = "dscp", pfc: str = "0   0   0   1   0   0   0   0", **moved: int) -> str:
    """mlnx_qos -i: DSCP n has priority n / 8, PFC is on for 3."""
    lines = ["DCBX mode: OS controlled", f"Priority trust state: {trust}", "dscp2prio mapping:"]
    for priority in PRIORITIES:
        codes = "".join(f"{8 * priority + i:02}," for i in reversed(range(8)))
        lines.append(f"\tprio:{priority} dscp:{codes}")
    lines += ["default priority:", "Receive buffer size (bytes): 20016,156096,0,0,0,0,0,0,"]
    lines += ["Cable len: 7", "PFC configuration:", "\tpriority    0   1   2   3   4   5   6   7"]
    lines += [f"\tenabled     {pfc}   ", "\tbuffer      0   0   0   1   0   0   0   0   "]
    for tc in PRIORITIES:
        lines += [f"tc: {tc} ratelimit: unlimited, tsa: vendor", f"\t priority:  {tc}"]
    return "\n".join(lines)


STATISTICS = (
    {
        "rx_packets": 845320277,
        "tx_packets": 896117891,
        "rx_out_of_buffer": 0,
        "rx_discards_phy": 3,
        "rx_crc_errors_phy": 0,
        "rx_symbol_err_phy": 0,
        "outbound_pci_stalled_rd": 0,
        "outbound_pci_stalled_wr": 0,
        "outbound_pci_stalled_rd_events": 0,
        "outbound_pci_stalled_wr_events": 0,
        "tx_pause_storm_warning_events": 0,
        "tx_pause_storm_error_events": 0,
    }
    | {
        f"{way}_prio{p}_{what}": 1000
        for p in PRIORITIES
        for way in ("rx", "tx")
        for what in ("bytes", "packets", "pause", "pause_duration")
    }
    | {f"rx_prio{p}_discards": 0 for p in PRIORITIES}
)

HW_COUNTERS = {
    "duplicate_request": 7,
    "implied_nak_seq_err": 7,
    "local_ack_timeout_err": 7,
    "np_cnp_sent": 7,
    "np_ecn_marked_roce_packets": 7,
    "out_of_buffer": 7,
    "out_of_sequence": 7,
    "packet_seq_err": 7,
    "rnr_nak_retry_err": 7,
    "roce_adp_retrans": 7,
    "rp_cnp_handled": 7,
    "rp_cnp_ignored": 7,
    "lifespan": 10,
}

LINK = """\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 16GT/s, Width x16
\t\t\tTrErr- Train- SlotClk+ DLActive- BWMgmt- ABWMgmt-"""
LSPCI_NIC = f"""86:00.0 Ethernet controller: Mellanox Technologies MT28908 Family [ConnectX-6]
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tDevCtl:\tCorrErr- NonFatalErr+ FatalErr+ UnsupReq-
\t\t\tRlxdOrd+ ExtTag+ PhantFunc- AuxPwr- NoSnoop+ FLReset-
\t\t\tMaxPayload 512 bytes, MaxReadReq 4096 bytes
{LINK}"""
LSPCI_BRIDGE = """85:00.0 PCI bridge: Intel Corporation Device 347a (prog-if 00 [Normal decode])
\tCapabilities: [100 v1] Access Control Services
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
\t\tACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"""


def lspci(nic: str = LSPCI_NIC, bridge: str = LSPCI_BRIDGE) -> str:
    other = {"86:00.0": "17:00.0", "85:00.0": "16:00.0"}
    first = "\n\n".join([bridge, nic])
    second = first
    for old, new in other.items():
        second = second.replace(old, new)
    return f"{second}\n\n{first}"


def add_pci(tree: Tree, bridge: str, address: str, node: int, kind: str) -> None:
    place = f"sys/devices/pci{bridge[:7]}/{bridge}/{address}"
    for folder, of_kind in ((place, kind), (str(Path(place).parent), BRIDGE_CLASS)):
        tree.write_all(
            folder,
            {
                "class": of_kind,
                "vendor": "0x10de" if kind == GPU_CLASS else "0x15b3",
                "device": "0x101b",
                "numa_node": node,
                "current_link_speed": "16.0 GT/s PCIe",
                "max_link_speed": "16.0 GT/s PCIe",
                "current_link_width": 16,
                "max_link_width": 16,
            },
        )
        name = Path(folder).name
        if not (tree.root / "sys/bus/pci/devices" / name).is_symlink():
            tree.link(f"sys/bus/pci/devices/{name}", folder)


def add_gpu(tree: Tree) -> None:
    """Behind the second card's root port."""
    add_pci(tree, "0000:85:00.0", "0000:87:00.0", 1, GPU_CLASS)
    for module in ("nvidia", "nvidia_peermem"):
        tree.write(f"sys/module/{module}/refcnt", 1)


def add_interface(tree: Tree, name: str, place: str, node: int) -> None:
    tree.write_all(
        f"sys/class/net/{name}",
        {"mtu": 9000, "flags": "0x1003", "carrier": 1, "speed": 200000, "carrier_changes": 2},
    )
    tree.link(f"sys/class/net/{name}/device", place)
    tree.write_all(f"sys/class/net/{name}/statistics", {"rx_missed_errors": 0, "rx_crc_errors": 0})
    tree.write_all(
        f"proc/sys/net/ipv4/conf/{name}",
        {"arp_ignore": 1, "arp_announce": 2, "arp_filter": 0, "rp_filter": 2},
    )
    for role in ("roce_np", "roce_rp"):
        tree.write_all(f"sys/class/net/{name}/ecn/{role}/enable", dict.fromkeys("01234567", 1))
    tree.printed(f"ethtool -i {name}", "driver: mlx5_core\nfirmware-version: 20.39.1002 (MT_1)")
    statistics = "\n".join(f"     {key}: {value}" for key, value in STATISTICS.items())
    tree.printed(f"ethtool -S {name}", f"NIC statistics:\n{statistics}")
    tree.printed(
        f"ethtool -a {name}",
        f"Pause parameters for {name}:\nAutonegotiate:\toff\nRX:\t\toff\nTX:\t\toff",
    )
    tree.printed(
        f"ethtool --show-fec {name}",
        f"FEC parameters for {name}:\nConfigured FEC encodings: Auto\nActive FEC encoding: RS",
    )
    tree.printed(f"mlnx_qos -i {name}", qos())


def add_card(tree: Tree, rail: int, address: str) -> None:
    device, interface = f"mlx5_{rail}", f"rail{rail}"
    bridge, pci = [("0000:16:00.0", "0000:17:00.0"), ("0000:85:00.0", "0000:86:00.0")][rail]
    add_pci(tree, bridge, pci, rail, NIC_CLASS)
    place = f"sys/devices/pci{bridge[:7]}/{bridge}/{pci}"
    tree.link(f"{place}/driver", "sys/bus/pci/drivers/mlx5_core")
    (tree.root / "sys/bus/pci/drivers/mlx5_core").mkdir(parents=True, exist_ok=True)
    add_interface(tree, interface, place, rail)
    folder = f"sys/class/infiniband/{device}"
    tree.write_all(folder, {"fw_ver": "20.39.1002", "board_id": "MT_0000000224"})
    tree.link(f"{folder}/device", place)
    port = f"{folder}/ports/1"
    tree.write_all(
        port,
        {
            "state": "4: ACTIVE",
            "phys_state": "5: LinkUp",
            "link_layer": "Ethernet",
            "rate": "200 Gb/sec (4X HDR)",
        },
    )
    local = f"fe80:0000:0000:0000:b8ce:f6ff:fe00:000{rail}"
    for index, gid in enumerate([local, local, gid_of(address), gid_of(address)]):
        tree.write(f"{port}/gids/{index}", gid)
        tree.write(f"{port}/gid_attrs/types/{index}", "RoCE v2" if index % 2 else "IB/RoCE v1")
        tree.write(f"{port}/gid_attrs/ndevs/{index}", interface)
    tree.write(f"{port}/gids/4", EMPTY_GID)
    tree.write_all(f"{port}/hw_counters", HW_COUNTERS)
    tree.write_all(f"{port}/counters", {"port_rcv_packets": 10**9, "symbol_error": 0})
    tree.write(f"sys/class/infiniband_verbs/uverbs{rail}/ibdev", device)
    tree.write(f"dev/infiniband/uverbs{rail}", "")


LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max open files            1048576              1048576              files
Max locked memory         unlimited            unlimited            bytes
Max address space         unlimited            unlimited            bytes"""
ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t0001A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
rail0\t00000A0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
rail1\t00010A0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0"""


MEMINFO = """MemTotal:       527765580 kB
MemFree:        421034120 kB
HugePages_Total:    4096
HugePages_Free:     4096
HugePages_Rsvd:        0
HugePages_Surp:        0
Hugepagesize:       2048 kB
Hugetlb:         8388608 kB"""


def memory_stat(anon: int, shmem: int, file: int) -> str:
    """Of control groups of the second version: shared memory is a part of `file`."""
    parts = {"anon": anon, "file": file, "shmem": shmem, "inactive_anon": anon, "active_anon": 0}
    parts |= {"inactive_file": (file - shmem) // 2, "active_file": (file - shmem) // 2}
    return "\n".join(f"{name} {value}" for name, value in parts.items())


# A line for each core; rows of the table, and others.
NEIGHBOURS = """entries  allocs   table_fulls
{0:08x} 00000ec4 00000000
{0:08x} 00000f88 00000000"""


def add_process(tree: Tree) -> None:
    tree.write_all(
        "proc/self",
        {
            "limits": LIMITS,
            "status": "Name:\tpython3\nPid:\t4711\nUid:\t1000\t1000\t1000\t1000\n"
            "CapEff:\t0000000000000000\nCpus_allowed_list:\t0-7",
            "cgroup": "0::/job",
            "net/route": ROUTES,
        },
    )
    tree.write_all(
        "sys/fs/cgroup/job",
        {
            "cpu.max": "max 100000",
            "rdma.max": "mlx5_0 hca_handle=max hca_object=max",
            "memory.max": 256 * GIB,
            "memory.current": 255 * GIB,  # most of it files that were read
            "memory.stat": memory_stat(anon=40 * GIB, shmem=20 * GIB, file=215 * GIB),
            "memory.events": "low 0\nhigh 0\nmax 71\noom 0\noom_kill 0\noom_group_kill 0",
            "pids.max": 98304,
            "pids.current": 412,
            "pids.events": "max 0",
        },
    )
    tree.environment(RINGWOOD_VERBS_TRAFFIC_CLASS="106", WORLD_SIZE="16")


def healthy(root: Path, host: int = 1) -> Tree:
    tree = Tree(root / f"host{host}")
    tree.write("etc/hostname", f"host{host}")
    tree.write("etc/hosts", f"127.0.0.1 localhost\n192.168.1.{host} host{host}")
    tree.write_all(
        "proc",
        {
            "cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/sda1 intel_iommu=on iommu=pt",
            "sys/kernel/osrelease": "6.1.0-28-amd64",
            "uptime": "1000.00 9000.00",
            "meminfo": MEMINFO,
            "mounts": "tmpfs /dev/shm tmpfs rw,nosuid,nodev,size=263882788k 0 0",
        },
    )
    tree.write("proc/sys/vm/overcommit_memory", 0)
    tree.write("proc/net/stat/arp_cache", NEIGHBOURS.format(0x2A))
    tree.write("proc/sys/net/ipv4/neigh/default/gc_thresh3", 1024)
    tree.write("proc/sys/fs/file-nr", "3072\t0\t9223372036854775807")
    for core in range(8):
        tree.write(f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor", "performance")
    for rail in (0, 1):
        add_card(tree, rail, f"10.10.{rail}.{host}")
    tree.write_all(
        "sys/class/net/eth0",
        {"mtu": 1500, "flags": "0x1003", "carrier": 1, "speed": 1000, "carrier_changes": 2},
    )
    tree.write_all("sys/class/net/lo", {"mtu": 65536, "flags": "0x9"})
    addresses = [("lo", "127.0.0.1/8"), ("eth0", f"192.168.1.{host}/24")]
    addresses += [(f"rail{r}", f"10.10.{r}.{host}/24") for r in (0, 1)]
    text = "\n".join(
        f"{i}: {name}    inet {address} scope global {name}\\       valid_lft forever"
        for i, (name, address) in enumerate(addresses, 1)
    )
    tree.printed("ip -o addr", text)
    rules = ("0:\tfrom all lookup local", "32766:\tfrom all lookup main")
    tree.printed("ip -4 rule", "\n".join([*rules, "32767:\tfrom all lookup default"]))
    tree.printed("nft list ruleset", "table inet filter {\n\tchain input {\n\t}\n}")
    tree.printed("lspci -vvv", lspci())
    for node, cores in enumerate(("0-3", "4-7")):
        tree.write(f"sys/devices/system/node/node{node}/cpulist", cores)
    add_process(tree)
    return tree

"""What must be wrong with a host for each rule of `ringwood doctor`, and nothing else."""

import shutil

from doctor_gpus import RULES_OF_GPUS
from doctor_runs import (
    PORT,
    all_cards_at_the_other_node,
    empty_gids,
    memlock,
    moved_gids,
    port_down,
    printing,
    raise_counter,
    raise_statistic,
    replacing,
    with_environment,
    writing,
)
from doctor_trees import GIB, LSPCI_BRIDGE, LSPCI_NIC, NEIGHBOURS, add_gpu, lspci, qos


def same_network(tree, **settings: int) -> None:
    tree.replace("sos_commands/networking/ip_-o_addr", "10.10.1.1/24 scope", "10.10.0.101/24 scope")
    for rail in (0, 1):
        for name, value in settings.items():
            tree.write(f"proc/sys/net/ipv4/conf/rail{rail}/{name}", value)


def fewer_files(tree) -> None:
    few = "Max open files            32"
    tree.replace("proc/self/limits", "Max open files            1048576", few)


def full_files(tree) -> None:
    tree.replace(
        "proc/self/limits", "Max open files            1048576", "Max open files            300"
    )
    for number in range(280):
        tree.write(f"proc/self/fd/{number}", "")


def foreign_gids(tree) -> None:
    """Reading them in another namespace gives EINVAL."""
    shutil.rmtree(tree.root / PORT / "gid_attrs")


def bond(tree) -> None:
    tree.write("sys/class/net/rail1/bonding/mode", "802.3ad 4")
    tree.write("sys/class/net/rail1/bonding/slaves", "rail1a rail1b")


def only_docker(tree) -> None:
    tree.write("sys/class/net/docker0/mtu", 1500)
    tree.printed("ip -o addr", "3: docker0    inet 172.17.0.1/16 brd 172.17.255.255 scope global")


def acs_on(tree) -> None:
    add_gpu(tree)
    bridge = LSPCI_BRIDGE.replace("ACSCtl:\tSrcValid-", "ACSCtl:\tSrcValid+")
    tree.printed("lspci -vvv", lspci(bridge=bridge))


def no_ats(tree) -> None:
    add_gpu(tree)
    tree.write("proc/cpuinfo", "flags\t\t: fpu vme hypervisor lahf_lm")
    ats = "\tCapabilities: [1c0 v1] Address Translation Service\n\t\tATSCtl:\tEnable-, Smallest 00"
    tree.printed("lspci -vvv", lspci(nic=f"{LSPCI_NIC}\n{ats}"))


def no_relaxed_ordering(tree) -> None:
    add_gpu(tree)
    tree.printed("lspci -vvv", lspci(nic=LSPCI_NIC.replace("RlxdOrd+", "RlxdOrd-")))


def no_peer_memory(tree) -> None:
    add_gpu(tree)
    shutil.rmtree(tree.root / "sys/module/nvidia_peermem")


def local_name(tree) -> None:
    tree.write("etc/hosts", "127.0.0.1 localhost\n127.0.1.1 host1")
    tree.environment(MASTER_ADDR="host1", RINGWOOD_VERBS_TRAFFIC_CLASS="106")


def small_quota(tree) -> None:
    """Of the group above the process's own: eight ranks, and the time of six and a half cores."""
    tree.replace("proc/self/cgroup", "0::/job", "0::/pod/job")
    tree.write("sys/fs/cgroup/pod/job/cpu.max", "max 100000")
    tree.write("sys/fs/cgroup/pod/cpu.max", "650000 100000")
    tree.environment(LOCAL_WORLD_SIZE="8", RINGWOOD_VERBS_TRAFFIC_CLASS="106")


RULES_OF_A_TREE = {
    "rdma-driver": lambda tree: shutil.rmtree(tree.root / "sys/class/infiniband/mlx5_1"),
    "rdma-device-file": lambda tree: tree.remove("dev/infiniband/uverbs1"),
    "port-down": port_down,
    "port-rate": writing(f"{PORT}/rate", "100 Gb/sec (2X HDR)"),
    "mtu-small": writing("sys/class/net/rail1/mtu", 1500),
    "gid-namespace": foreign_gids,
    "gid-none": empty_gids,
    "gid-link-local": lambda tree: empty_gids(tree, 2),
    "gid-fixed-index": with_environment(NCCL_IB_GID_INDEX="2"),
    "memlock": memlock,
    "rdma-limit": replacing("sys/fs/cgroup/job/rdma.max", "handle=max", "handle=0"),
    "shm-small": replacing("proc/mounts", "263882788k", "65536k"),
    "files-limit": fewer_files,
    "files-full": full_files,
    "cpu-governor": writing("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave"),
    "cpu-quota": small_quota,
    "overcommit-strict": writing("proc/sys/vm/overcommit_memory", 2),
    "memory-limit": writing("sys/fs/cgroup/job/memory.max", 64 * GIB),
    "pids-limit": writing("sys/fs/cgroup/job/pids.max", 450),
    "huge-pages-idle": replacing(
        "proc/meminfo", "4096\nHugePages_Free:     4096", "98304\nHugePages_Free:     98304"
    ),
    "cores-shared": with_environment(LOCAL_WORLD_SIZE="16"),
    "numa-far": all_cards_at_the_other_node,
    "name-loopback": local_name,
    "env-verbs-off": with_environment(NCCL_IB_DISABLE="1"),
    "env-device-absent": with_environment(NCCL_IB_HCA="=mlx5_7"),
    "env-gid-index": with_environment(NCCL_IB_GID_INDEX="3"),
    "env-timeout": with_environment(NCCL_IB_TIMEOUT="14"),
    "env-debug": with_environment(RINGWOOD_LOG="debug"),
    "env-unknown": with_environment(RINGWOOD_VERB_TC="106"),
    "interface-absent": with_environment(NCCL_SOCKET_IFNAME="=eth7"),
    "interface-choice": only_docker,
    "arp-flux": lambda tree: same_network(tree, arp_ignore=0),
    "rp-filter": lambda tree: same_network(tree, rp_filter=1),
    "bond-queue-pairs": bond,
    "udp-4791-filtered": printing("nft list ruleset", "chain input {\n\tudp dport 4791 drop\n}"),
    "pcie-link": writing("sys/bus/pci/devices/0000:86:00.0/current_link_width", 8),
    "pcie-read-request": printing(
        "lspci -vvv", lspci(nic=LSPCI_NIC.replace("MaxReadReq 4096", "MaxReadReq 128"))
    ),
    "gpu-acs": acs_on,
    "gpu-ats": no_ats,
    "pcie-relaxed-ordering": no_relaxed_ordering,
    "gpu-peer-memory": no_peer_memory,
    "iommu-translating": replacing("proc/cmdline", " iommu=pt", ""),
    "dscp-not-trusted": printing("mlnx_qos -i rail1", qos(trust="pcp")),
    "pfc-other-priority": lambda tree: tree.environment(WORLD_SIZE="16"),
    "global-pause": replacing(
        "sos_commands/networking/ethtool_-a_rail1", "RX:\t\toff", "RX:\t\ton"
    ),
    "ecn-off": writing("sys/class/net/rail1/ecn/roce_rp/enable/3", 0),
    "tos-only-rdma-cm": writing("sys/kernel/config/rdma_cm/mlx5_1/ports/1/default_roce_tos", 96),
    "traffic-class-forced": writing(
        "sys/class/infiniband/mlx5_1/tc/1/traffic_class", "Global tclass=96"
    ),
    "link-flapping": writing("sys/class/net/rail1/carrier_changes", 400),
    "neighbour-table": writing("proc/sys/net/ipv4/neigh/default/gc_thresh3", 44),
    **RULES_OF_GPUS,
}


RULES_OF_A_SNAPSHOT = {
    "rdma-library": (["system", "verbs_library"], "libibverbs.so.1: cannot open shared object"),
    "env-device-prefix": (["process", "environment", "NCCL_IB_HCA"], "mlx5_1"),
}


def some_loss(tree, amount: int = 500) -> None:
    raise_counter(tree, "hw_counters/out_of_sequence", amount)
    raise_counter(tree, "counters/port_rcv_packets", 10**5)


FULL_TABLE = NEIGHBOURS.format(42).replace(" 00000000", " 00000007")

RULES_OF_COUNTERS = {
    "neighbour-table": writing("proc/net/stat/arp_cache", FULL_TABLE),
    "gid-moved": moved_gids,
    "fabric-loss": some_loss,
    "port-discards": lambda tree: raise_statistic(tree, "rx_prio3_discards", 100),
    "pause-storm": lambda tree: raise_statistic(tree, "rx_prio3_pause_duration", 5_000_000),
    "receiver-slow": lambda tree: raise_counter(tree, "hw_counters/out_of_buffer", 100),
    "ecn-unanswered": lambda tree: raise_counter(
        tree, "hw_counters/np_ecn_marked_roce_packets", 100
    ),
    "queue-unexpected": lambda tree: raise_statistic(tree, "tx_prio0_bytes", 10**9),
    "link-errors": lambda tree: raise_counter(tree, "counters/symbol_error", 5),
    "link-flapping": writing("sys/class/net/rail1/carrier_changes", 6),
}

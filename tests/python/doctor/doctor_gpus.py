"""GPUs for the trees of doctor_trees: what nvidia-smi prints of four A100s joined by a switch.

Made by hand after public texts, since no such host is at hand. `topo -m` with its legend of cards:
NVIDIA/nccl#1617, NVIDIA/DCGM#149 (the first line is underlined, also in files); `topo -p2p`:
noonghunna/club-3090#1229; `nvlink -s`: Azure/azhpc-diagnostics#73, leptonai/gpud#1085; `-q`: of
public reports of the drivers 550 and newer. Outputs lie where sosreport's plugin nvidia puts them.
"""

from collections.abc import Callable

from doctor_trees import GPU_CLASS, Tree, add_pci

MODEL = "NVIDIA A100-SXM4-40GB"
VERSION = "535.154.05"
ADDRESSES = ("0000:18:00.0", "0000:19:00.0", "0000:87:00.0", "0000:88:00.0")
LINKS = 12
TABLE = (
    "nvidia-smi --query-gpu=index,name,pci.bus_id,driver_version,"
    "ecc.errors.uncorrected.volatile.total --format=csv,noheader,nounits"
)
NVLINKS, TOPOLOGY, PEERS, REPORT = (
    f"nvidia-smi {words}" for words in ("nvlink -s", "topo -m", "topo -p2p r", "-q")
)
COMMANDS = (TABLE, NVLINKS, TOPOLOGY, PEERS)
INACTIVE = "NVML: Unable to retrieve NVLink information as all links are inActive"


def table(model: str = MODEL, version: str = VERSION, ecc: tuple = (0, 0, 0, 0)) -> str:
    rows = enumerate(zip(ADDRESSES, ecc, strict=False))
    return "\n".join(
        f"{i}, {model}, 0000{address.upper()}, {version}, {errors}" for i, (address, errors) in rows
    )


def nvlinks(up: tuple = (LINKS,) * 4, model: str = MODEL) -> str:
    """A GPU of which no link is active gets a sentence."""
    lines = []
    for gpu, active in enumerate(up):
        lines.append(f"GPU {gpu}: {model} (UUID: GPU-0000000{gpu}-6d5b-03bd-3a71-f85b47a61bde)")
        speeds = ["25 GB/s"] * active + ["<inactive>"] * (LINKS - active)
        links = [f"\t Link {i}: {speed}" for i, speed in enumerate(speeds)]
        lines += links if active else [INACTIVE]
    return "\n".join(lines)


LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
"""


def topology(gpus: str = "NV12", cards: tuple = ("PIX SYS",) * 2 + ("SYS PIX",) * 2) -> str:
    names = ["GPU0", "GPU1", "GPU2", "GPU3", "NIC0", "NIC1"]
    columns = "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])
    lines = [f"\t\x1b[4m{columns}\x1b[0m"]
    for i, paths in enumerate(cards):
        others = [" X " if i == j else gpus for j in range(4)]
        node = i // 2
        cells = [f"GPU{i}", *others, *paths.split(), ("0-3", "4-7")[node], str(node), "", "N/A"]
        lines.append("\t".join(cells))
    for i, other in enumerate((" X \tSYS", "SYS\t X ")):
        lines.append("\t".join([f"NIC{i}", *(paths.split()[i] for paths in cards), other]))
    return "\n".join(lines) + "\n" + LEGEND


def peers(access: Callable[[int, int], str] = lambda i, j: "OK") -> str:
    lines = [" \tGPU0\tGPU1\tGPU2\tGPU3\t"]
    for i in range(4):
        cells = ["X" if i == j else access(i, j) for j in range(4)]
        lines.append("\t".join([f" GPU{i}", *cells, ""]))
    legend = "  X    = Self\n  OK   = Status Ok\n  CNS  = Chipset not supported"
    return "\n".join(lines) + f"\n\nLegend:\n\n{legend}\n"


def report(ecc: int = 0) -> str:
    """Of -q, what is looked for and what could be taken for it."""
    lines = ["", "==============NVSMI LOG==============", ""]
    lines += [f"Driver Version                            : {VERSION}"]
    lines += ["CUDA Version                              : 12.2", ""]
    lines += ["Attached GPUs                             : 4"]
    for address in ADDRESSES:
        lines.append(f"GPU 0000{address.upper()}")
        lines.append(f"    Product Name                          : {MODEL}")
        lines.append("    ECC Errors")
        for part, errors in (("Volatile", ecc), ("Aggregate", 7)):
            lines.append(f"        {part}")
            lines.append("            SRAM Correctable              : 5")
            lines.append("            SRAM Uncorrectable Parity     : 0")
            lines.append(f"            DRAM Uncorrectable            : {errors}")
        lines.append("        Aggregate Uncorrectable SRAM Sources")
        lines.append("            SRAM L2                       : 0")
    return "\n".join(lines)


def tell(tree: Tree, command: str, text: str) -> None:
    tree.printed(command, text, "nvidia")


def add_gpus(tree: Tree) -> Tree:
    """Two behind the root port of each card."""
    for i, address in enumerate(ADDRESSES):
        bridge = ("0000:16:00.0", "0000:85:00.0")[i // 2]
        add_pci(tree, bridge, address, i // 2, GPU_CLASS)
        place = f"sys/devices/pci{bridge[:7]}/{bridge}/{address}"
        tree.link(f"{place}/driver", "sys/bus/pci/drivers/nvidia")
    (tree.root / "sys/bus/pci/drivers/nvidia").mkdir(parents=True, exist_ok=True)
    for module in ("nvidia", "nvidia_peermem"):
        tree.write(f"sys/module/{module}/refcnt", 1)
    texts = (table(), nvlinks(), topology(), peers())
    for command, text in zip(COMMANDS, texts, strict=True):
        tell(tree, command, text)
    return tree


def saying(command: str, text: str) -> Callable[[Tree], None]:
    """GPUs of which a command says something else."""
    return lambda tree: tell(add_gpus(tree), command, text)


RULES_OF_GPUS = {
    "gpu-driver": saying(TABLE, table(ecc=(0, 0, 0))),
    "gpu-ecc": saying(TABLE, table(ecc=(0, 0, 2, 0))),
    "gpu-nvlink-down": saying(NVLINKS, nvlinks(up=(LINKS, LINKS, LINKS, 10))),
    "gpu-peer-access": saying(PEERS, peers(lambda i, j: "OK" if i // 2 == j // 2 else "CNS")),
    "gpu-nic-far": saying(TOPOLOGY, topology(cards=("PIX SYS", "PIX SYS", "SYS PIX", "SYS SYS"))),
}

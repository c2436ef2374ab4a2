"""What bench/peers --networks has measured, as JSON and as Markdown tables."""

import json
import statistics
from pathlib import Path

from networks import NETWORKS
from peers_report import number, size_name
from rounds import machine_line

LABELS = {
    "ringwood": "ringwood",
    "ringwood-sleeping": "ringwood, sleeping",
    "ringwood-bf16": "ringwood, bf16",
    "ringwood-int8": "ringwood, int8",
    "openmpi-tcp": "Open MPI (btl tcp,self)",
    "torch-ringwood": "ringwood in torch",
    "torch-gloo": "gloo in torch",
}
RATIOS = {
    "gloo_over_ringwood": ("torch-gloo", "torch-ringwood", "gloo / ringwood in torch"),
    "openmpi_over_ringwood": ("openmpi-tcp", "ringwood", "Open MPI / ringwood"),
}


class Rounds:
    """(network, contestant, bytes) -> the rows of all rounds."""

    def __init__(self, rows: dict):
        self.rows = rows

    def networks(self) -> list[str]:
        return [name for name in NETWORKS if any(net == name for net, _, _ in self.rows)]

    def contestants(self, net: str) -> list[str]:
        return [name for name in LABELS if any(k[:2] == (net, name) for k in self.rows)]

    def sizes(self, net: str) -> list[int]:
        return sorted({size for n, who, size in self.rows if n == net and who != "iperf3"})

    def best(self, net: str, who: str, size: int) -> float | None:
        rows = self.rows.get((net, who, size))
        return min(row["best_us"] for row in rows) if rows else None

    def median(self, net: str, who: str, size: int) -> float | None:
        rows = self.rows.get((net, who, size))
        return statistics.median(row["median_us"] for row in rows) if rows else None

    def cpu(self, net: str, who: str, size: int) -> float | None:
        shares = [row.get("cpu_percent") for row in self.rows.get((net, who, size), [])]
        return statistics.median(s for s in shares if s is not None) if any(shares) else None

    def iperf3(self, net: str) -> float | None:
        """Bytes per microsecond each way of iperf3 --bidir, at its best."""
        rates = [
            size / row["best_us"]
            for (n, who, size), rows in self.rows.items()
            for row in rows
            if (n, who) == (net, "iperf3")
        ]
        return max(rates) if rates else None


def comparison(rounds: Rounds, net: str, size: int) -> dict:
    """The ratios of one row; above 1 ringwood is faster. With two ranks each sends its `size`
    bytes, so that bytes over time is the rate each way."""
    row = {"network": net, "bytes": size}
    for key, (peer, ours, _) in RATIOS.items():
        for kind, times in (("best", rounds.best), ("median", rounds.median)):
            theirs, mine = times(net, peer, size), times(net, ours, size)
            row[f"{key}_{kind}"] = round(theirs / mine, 4) if theirs and mine else None
    mine, iperf3 = rounds.best(net, "ringwood", size), rounds.iperf3(net)
    row["rate_over_iperf3"] = round(size / mine / iperf3, 4) if mine and iperf3 else None
    for who in ("ringwood", "ringwood-sleeping"):
        row[f"cpu_percent_{who.replace('-', '_')}"] = rounds.cpu(net, who, size)
    return row


def cell(value: float | None, unit: str = "") -> str:
    return "-" if value is None else f"{number(value)}{unit}"


def table(rounds: Rounds, net: str) -> list[str]:
    names = rounds.contestants(net)
    ratios = [key for key, (peer, ours, _) in RATIOS.items() if {peer, ours} <= set(names)]
    head = ["size", *(LABELS[n] for n in names), *(RATIOS[key][2] for key in ratios)]
    head += ["rate / iperf3", "CPU"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for size in rounds.sizes(net):
        row = comparison(rounds, net, size)
        cells = [size_name(size)]
        for name in names:
            best, median = rounds.best(net, name, size), rounds.median(net, name, size)
            cells.append(f"{number(best)} ({number(median)})" if best else "-")
        cells += [cell(row[f"{key}_best"], "x") for key in ratios]
        share = row["rate_over_iperf3"]
        cells.append("-" if share is None else f"{share:.0%}")
        shares = [row["cpu_percent_ringwood"], row["cpu_percent_ringwood_sleeping"]]
        cells.append(" / ".join(f"{s:.0f}%" for s in shares if s is not None) or "-")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def markdown(machine: dict, settings: dict, rounds: Rounds) -> str:
    lines = [
        "# float32 all-reduce over TCP, sum, in place, 2 ranks, side by side",
        "",
        machine_line(machine, settings),
        "",
        "Microseconds: best (median). A ratio above 1 is in our favour. From 16 KiB up every rank "
        "writes its buffer before and reads it after each operation. Rate / iperf3: bytes over "
        "time of ringwood (C++) by the best rate each way of `iperf3 --bidir`, one socket per "
        "direction. CPU: of one core, the busiest rank of ringwood (C++); after the slash, with "
        "`RINGWOOD_SPIN_US=0`, which sleeps where it would wait.",
    ]
    for net in rounds.networks():
        lines += ["", f"## {net}: {NETWORKS[net]}", ""]
        if iperf3 := rounds.iperf3(net):
            lines += [f"iperf3 --bidir: {number(iperf3 * 8 / 1e3)} Gbit/s each way.", ""]
        lines += table(rounds, net)
    for failure in settings["failures"]:
        lines += ["", f"Failed: {failure}"]
    return "\n".join(lines) + "\n"


def write_report(folder: Path, machine: dict, settings: dict, rows: dict) -> None:
    """Writes tcp.json and tcp.md, and prints the latter."""
    rounds = Rounds(rows)
    everything = {
        "machine": machine,
        "settings": settings,
        "ratios": [
            comparison(rounds, net, s) for net in rounds.networks() for s in rounds.sizes(net)
        ],
        "rows": [
            {"network": net, "contestant": who, "bytes": size, "rounds": values}
            for (net, who, size), values in sorted(rows.items())
        ],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tcp.json").write_text(json.dumps(everything, indent=1) + "\n")
    text = markdown(machine, settings, rounds)
    (folder / "tcp.md").write_text(text)
    print(text)

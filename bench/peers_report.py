"""What bench/peers has measured, as JSON, as Markdown tables and as a picture."""

import json
import math
import statistics
from dataclasses import dataclass
from pathlib import Path

from rounds import machine_line

LABELS = {
    "limit": "memory limit",
    "ringwood": "ringwood staged",
    "ringwood-shared": "ringwood zero copy",
    "openmpi": "Open MPI",
    "mpich": "MPICH",
    "openmpi5": "Open MPI 5",
    "mpich5": "MPICH 5",
    "intelmpi": "Intel MPI",
    "oneccl": "oneCCL",
    "torch-ringwood": "staged in torch",
    "torch-ringwood-shared": "zero copy in torch",
    "torch-gloo": "gloo in torch",
    "torch-vllm": "vLLM's op in torch",
    "torch-deepspeed": "DeepSpeed's op in torch",
}
COLOURS = {
    "limit": "#999999",
    "ringwood": "#b3261e",
    "ringwood-shared": "#f97316",
    "openmpi": "#1f6feb",
    "mpich": "#2da44e",
    "openmpi5": "#54aeff",
    "mpich5": "#7ee787",
    "intelmpi": "#0a3069",
    "oneccl": "#1b7c83",
    "torch-ringwood": "#e88b84",
    "torch-ringwood-shared": "#fdba74",
    "torch-gloo": "#8250df",
    "torch-vllm": "#bf8700",
    "torch-deepspeed": "#bf3989",
}
# Who is compared, of each level: C and C++, and torch. Of the second, some are not backends.
PEERS = ("openmpi", "mpich", "openmpi5", "mpich5", "intelmpi", "oneccl")
TORCH_OPS = ("torch-vllm", "torch-deepspeed")
TORCH_PEERS = ("torch-gloo", *TORCH_OPS)


@dataclass
class Ratio:
    """How many times longer the best of `peers` takes than `ours`."""

    key: str  # in peers.json, where _best or _median follows
    ours: str
    peers: tuple[str, ...]
    heading: str
    # It is told where one of these took part: else it repeats another ratio.
    needs: tuple[str, ...] = ()

    def told(self, names: list[str]) -> bool:
        return self.ours in names and (not self.needs or any(n in names for n in self.needs))


HOW = (
    "Staged: the ranks' buffers are private and their bytes pass through shared memory. Zero copy: "
    "the buffers lie in memory that the ranks of a host share. The best peer is at each size the "
    "fastest MPI or oneCCL. gloo is compared with ringwood in torch, and so is the best in torch, "
    "the fastest of gloo and the ops of vLLM and DeepSpeed, which are called directly: they do "
    "without torch.distributed, which ringwood and gloo pay for."
)
STAGED, ZERO_COPY = "", "_shared"
RATIOS = [
    Ratio("best_peer_over_ringwood", "ringwood", PEERS, "best peer / staged"),
    Ratio("best_peer_over_ringwood_shared", "ringwood-shared", PEERS, "best peer / zero copy"),
    Ratio("gloo_over_ringwood", "torch-ringwood", ("torch-gloo",), "gloo / staged"),
    Ratio(
        "gloo_over_ringwood_shared", "torch-ringwood-shared", ("torch-gloo",), "gloo / zero copy"
    ),
    Ratio(
        "best_in_torch_over_ringwood",
        "torch-ringwood",
        TORCH_PEERS,
        "best in torch / staged",
        TORCH_OPS,
    ),
    Ratio(
        "best_in_torch_over_ringwood_shared",
        "torch-ringwood-shared",
        TORCH_PEERS,
        "best in torch / zero copy",
        TORCH_OPS,
    ),
    Ratio("limit_over_ringwood", "ringwood", ("limit",), "limit / staged"),
    Ratio("limit_over_ringwood_shared", "ringwood-shared", ("limit",), "limit / zero copy"),
]
# What a sentence says of a ratio, by the start of its key.
NAMES = {
    "gloo": "gloo",
    "best_in_torch": "the best peer in torch",
    "best_peer": "the best peer",
}


def size_name(size: int) -> str:
    for unit, power in (("MiB", 20), ("KiB", 10)):
        if size >= 1 << power and size % (1 << power) == 0:
            return f"{size >> power} {unit}"
    return f"{size} B"


def number(value: float) -> str:
    """Three significant digits, without exponents."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}" if value > 0 else "0"


class Results:
    """(ranks, mode, contestant, bytes) -> the rounds' (best, median), condensed."""

    def __init__(self, rounds: dict):
        self.rounds = rounds
        self.best = {key: min(b for b, _ in values) for key, values in rounds.items()}
        self.median = {
            key: statistics.median(m for _, m in values) for key, values in rounds.items()
        }

    def groups(self) -> list[tuple[int, str]]:
        return sorted({(r, m) for r, m, _, _ in self.best if m in ("plain", "touched")})

    def sizes(self, ranks: int, mode: str) -> list[int]:
        return sorted({s for r, m, _, s in self.best if (r, m) == (ranks, mode)})

    def contestants(self) -> list[str]:
        present = {c for _, _, c, _ in self.best}
        return [name for name in LABELS if name in present]

    def ratio(self, times: dict, place: tuple, ours: str, peers: tuple) -> float | None:
        """How many times longer the best of the peers takes at (ranks, mode, bytes)."""
        ranks, mode, size = place
        mine = times.get((ranks, mode, ours, size))
        theirs = [t for p in peers if (t := times.get((ranks, mode, p, size)))]
        return round(min(theirs) / mine, 4) if mine and theirs else None


def comparison(results: Results, ranks: int, mode: str, size: int) -> dict:
    """The ratios of one row: above 1 ringwood is faster."""
    row = {"ranks": ranks, "mode": mode, "bytes": size}
    for r in RATIOS:
        for kind, times in (("best", results.best), ("median", results.median)):
            row[f"{r.key}_{kind}"] = results.ratio(times, (ranks, mode, size), r.ours, r.peers)
    return row


def comparisons(results: Results) -> list[dict]:
    return [
        comparison(results, ranks, mode, size)
        for ranks, mode in results.groups()
        for size in results.sizes(ranks, mode)
    ]


def cell(results: Results, key: tuple) -> str:
    if key not in results.best:
        return "-"
    return f"{number(results.best[key])} ({number(results.median[key])})"


def ratio_cell(row: dict, ratio: Ratio) -> str:
    value = row[f"{ratio.key}_best"]
    if value is None:
        return "-"
    return f"{value:.0%}" if ratio.peers == ("limit",) else f"{number(value)}x"


def table(results: Results, ranks: int, mode: str) -> list[str]:
    names = results.contestants()
    ratios = [ratio for ratio in RATIOS if ratio.told(names)]
    head = ["size", *(LABELS[n] for n in names), *(ratio.heading for ratio in ratios)]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for size in results.sizes(ranks, mode):
        row = comparison(results, ranks, mode, size)
        cells = [cell(results, (ranks, mode, n, size)) for n in names]
        cells += [ratio_cell(row, ratio) for ratio in ratios]
        lines.append(f"| {' | '.join([size_name(size), *cells])} |")
    return lines


def verdict(rows: list[dict], ranks: int, mode: str, peer: str, memory: str = STAGED) -> str:
    """One sentence on the sizes at which the peer was faster, by the best times."""
    key = f"{peer}_over_ringwood{memory}_best"
    compared = [r for r in rows if (r["ranks"], r["mode"]) == (ranks, mode) and r[key] is not None]
    who = NAMES[peer]
    ours = f"{ranks} ranks, {mode}, {'zero copy' if memory == ZERO_COPY else 'staged'}"
    if not compared:
        return f"{ours}: not compared with {who}."
    slower = [size_name(r["bytes"]) for r in compared if r[key] < 1]
    mean = math.exp(statistics.fmean(math.log(r[key]) for r in compared))
    least = min(r[key] for r in compared)
    where = f"slower at {', '.join(slower)}" if slower else "not slower at any size"
    return f"{ours}: {where} than {who} (geometric mean {number(mean)}x, least {number(least)}x)."


def verdicts(results: Results, rows: list[dict]) -> list[str]:
    """All of them, but for contestants that were not measured."""
    names = results.contestants()
    told = {ratio.key for ratio in RATIOS if ratio.told(names)}
    return [
        verdict(rows, ranks, mode, peer, memory)
        for ranks, mode in results.groups()
        for memory in (STAGED, ZERO_COPY)
        for peer in NAMES
        if f"{peer}_over_ringwood{memory}" in told
    ]


def limits(results: Results) -> list[str]:
    """What the machine's memory can do at most, in words: one line for each number of ranks."""
    lines = []
    for ranks in sorted({r for r, mode, _, _ in results.best if mode == "memcpy"}):
        barrier = results.best[ranks, "barrier", "limit", 0]
        size = max(s for r, mode, _, s in results.best if (r, mode) == (ranks, "memcpy"))
        told = []
        for mode, name, moved in (
            ("memcpy", "memcpy", size / 2),
            ("plain", "reading and writing shared sums", 2 * size),
            ("touched", "the same, touched", 2 * size),
        ):
            if time := results.best.get((ranks, mode, "limit", size)):
                told.append(f"{name} {number(moved / time / 1e3)} GB/s")
        what = f"all {ranks} ranks at once, {size_name(size)}"
        lines.append(f"{what}: {', '.join(told)} per rank; a barrier {number(barrier)} us.")
    return lines


def markdown(machine: dict, settings: dict, results: Results, told: list[str]) -> str:
    lines = [
        "# float32 all-reduce, sum, in place, side by side",
        "",
        machine_line(machine, settings),
    ]
    lines += ["", "Microseconds: best (median). A ratio above 1 is in our favour.", HOW, ""]
    lines += [f"- {text}" for text in told]
    lines += [f"- limits of the machine, {text}" for text in limits(results)]
    for ranks, mode in results.groups():
        lines += ["", f"## {ranks} ranks, {mode}", "", *table(results, ranks, mode)]
    for failure in settings["failures"]:
        lines += ["", f"Failed: {failure}"]
    return "\n".join(lines) + "\n"


LEGEND_COLUMNS = 5


class Panel:
    """One log-log diagram of time over size."""

    WIDTH, HEIGHT, LEFT, TOP = 460, 300, 60, 40

    def __init__(self, results: Results, ranks: int, mode: str):
        self.results, self.ranks, self.mode = results, ranks, mode
        self.sizes = results.sizes(ranks, mode)
        times = [t for (r, m, _, _), t in results.best.items() if (r, m) == (ranks, mode)]
        self.low = math.floor(math.log10(min(times)))
        self.high = max(self.low + 1, math.ceil(math.log10(max(times))))

    def x(self, size: int) -> float:
        first, last = math.log2(self.sizes[0]), math.log2(self.sizes[-1])
        return self.LEFT + (math.log2(size) - first) / max(1e-9, last - first) * self.WIDTH

    def y(self, time: float) -> float:
        share = (math.log10(time) - self.low) / (self.high - self.low)
        return self.TOP + (1 - share) * self.HEIGHT

    def axes(self) -> list[str]:
        right, bottom = self.LEFT + self.WIDTH, self.TOP + self.HEIGHT
        out = [f'<text x="{self.LEFT}" y="24" class="title">{self.ranks} ranks, {self.mode}</text>']
        for power in range(self.low, self.high + 1):
            y = self.y(10.0**power)
            label = f"{10.0**power:g} µs" if power < 4 else f"{10 ** (power - 3):g} ms"
            out.append(f'<line x1="{self.LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
            out.append(f'<text x="{self.LEFT - 6}" y="{y + 4:.1f}" class="end">{label}</text>')
        for size in self.sizes[:: max(1, len(self.sizes) // 6)]:
            x = self.x(size)
            out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{self.TOP}" y2="{bottom}"/>')
            name = size_name(size)
            out.append(f'<text x="{x:.1f}" y="{bottom + 16}" class="middle">{name}</text>')
        return out

    def curves(self) -> list[str]:
        out = []
        for name in self.results.contestants():
            points = [
                f"{self.x(s):.1f},{self.y(self.results.best[key]):.1f}"
                for s in self.sizes
                if (key := (self.ranks, self.mode, name, s)) in self.results.best
            ]
            dash = ' stroke-dasharray="5 4"' if name == "limit" else ""
            style = f'stroke="{COLOURS[name]}"{dash}'
            out.append(f'<polyline points="{" ".join(points)}" {style}/>')
        return out


def picture(results: Results) -> str:
    groups = results.groups()
    columns = min(2, len(groups))
    width, height = Panel.WIDTH + 90, Panel.HEIGHT + 90
    names = results.contestants()
    rows = math.ceil(len(names) / LEGEND_COLUMNS)
    total = (columns * width, math.ceil(len(groups) / columns) * height + 10 + 20 * rows)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total[0]} {total[1]}" '
        'font-family="sans-serif" font-size="12">',
        "<style>polyline{fill:none;stroke-width:2}line{stroke:#ddd}.title{font-size:15px}"
        ".end{text-anchor:end}.middle{text-anchor:middle}</style>",
        f'<rect width="{total[0]}" height="{total[1]}" fill="white"/>',
    ]
    for i, (ranks, mode) in enumerate(groups):
        panel = Panel(results, ranks, mode)
        out.append(f'<g transform="translate({i % columns * width},{i // columns * height})">')
        out += [*panel.axes(), *panel.curves(), "</g>"]
    for i, name in enumerate(names):
        row, column = divmod(i, LEGEND_COLUMNS)
        x = 20 + column * (total[0] - 20) / min(len(names), LEGEND_COLUMNS)
        y = total[1] - 14 - 20 * (rows - 1 - row)
        out.append(f'<rect x="{x:.0f}" y="{y - 9}" width="14" height="9" fill="{COLOURS[name]}"/>')
        out.append(f'<text x="{x + 18:.0f}" y="{y}">{LABELS[name]}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def write_report(folder: Path, machine: dict, settings: dict, rounds: dict) -> None:
    """Writes peers.json, peers.md and peers.svg, and prints the Markdown."""
    results = Results(rounds)
    compared = comparisons(results)
    told = verdicts(results, compared)
    rows = [
        {
            "ranks": key[0],
            "mode": key[1],
            "contestant": key[2],
            "bytes": key[3],
            "best_us": results.best[key],
            "median_us": results.median[key],
            "rounds": values,
        }
        for key, values in sorted(rounds.items())
    ]
    everything = {
        "machine": machine,
        "settings": settings,
        "verdicts": told,
        "ratios": compared,
        "rows": rows,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "peers.json").write_text(json.dumps(everything, indent=1) + "\n")
    text = markdown(machine, settings, results, told)
    (folder / "peers.md").write_text(text)
    (folder / "peers.svg").write_text(picture(results))
    print(text)

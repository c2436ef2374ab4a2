"""The targets of collectives on GPUs, as bars for what was measured."""

LARGE = 1 << 28


def bar(name: str, what: str, value, wanted: tuple[str, float], why: str = "") -> dict:
    sign, limit = wanted
    reached = value is not None and (value <= limit if sign == "<=" else value >= limit)
    state = "not applicable" if value is None else "pass" if reached else "FAIL"
    found = {"bar": name, "what": what, "wanted": f"{sign} {limit}", "value": value}
    return found | {"state": state} | ({"why": why} if value is None else {})


def time_of(perf: dict, size: int):
    """Of an in-place all-reduce, called again and again."""
    for row in perf.get("rows", []):
        if row["collective"] == "all_reduce" and row["size"] == size:
            return row["time_us"]
    return None


def ratio(one, other):
    return one / other if one and other else None


def bars(devices: int, perf: dict, nccl: dict) -> list[dict]:
    figures = perf.get("figures", {})
    one = figures if devices == 1 else {}
    nccl_us = {int(size): us for size, us in nccl.get("time_us", {}).items()}
    moved = one.get("moved_of_copy") if figures.get("largest", 0) >= LARGE else None
    no_one = "it is of one GPU with two ranks, with 256 MB"
    no_nccl = "NCCL was not measured beside it"
    small, middle, large = (time_of(perf, size) for size in (8, 65536, LARGE))
    in_graph, staged = one.get("smallest_in_graph_us"), figures.get("staged_of_mapped")
    return [
        bar("G1", "us for 8 B, 2 ranks on 1 GPU", one.get("smallest_us"), ("<=", 15), no_one),
        bar("G1g", "us for 8 B, likewise, in a graph", in_graph, ("<=", 8), no_one),
        bar("G2", "256 MB: bytes moved, of the device's copy", moved, (">=", 0.7), no_one),
        bar("G3", "8 B: of NCCL's time", ratio(small, nccl_us.get(8)), ("<=", 1.2), no_nccl),
        bar("G3k", "64 KiB: likewise", ratio(middle, nccl_us.get(65536)), ("<=", 1.2), no_nccl),
        bar(
            "G4", "256 MB: of NCCL's rate", ratio(nccl_us.get(LARGE), large), (">=", 0.95), no_nccl
        ),
        bar("G5", "staged buffers: of mapped ones' rate", staged, (">=", 0.8), "not measured"),
    ]

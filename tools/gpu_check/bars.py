"""The targets that a machine with a GPU is measured against, from the results of the steps."""

from gpu_check.steps import Step

# Milliseconds of copies out, of the call on the host's memory and of copies in, measured alone.
PARTS = 1.15
# Gloo's time with CUDA tensors, divided by ours: from 1 MiB, and of 8 bytes.
LARGE, SMALL = 3.0, 2.0


def by_bytes(rows: list[dict], key: str) -> dict[int, float]:
    return {int(row["bytes"]): row[key] for row in rows if key in row}


def staged(steps: dict[str, Step]) -> list[dict]:
    """G0: staged, beside its three parts measured alone; the ranks of a card share its copies."""
    if not {"facts", "perf", "perf-host"} <= steps.keys():
        return []
    facts = steps["facts"].result
    outs = by_bytes(facts.get("copies", []), "out_us")
    ins = by_bytes(facts.get("copies", []), "in_us")
    ours = by_bytes(steps["perf"].result.get("rows", []), "time_us_median")
    host = by_bytes(steps["perf-host"].result.get("rows", []), "time_us_median")
    per_card = 2 if len(facts.get("devices", [])) == 1 else 1
    found = []
    for size in sorted(ours.keys() & host.keys() & outs.keys()):
        parts = per_card * (outs[size] + ins[size]) + host[size]
        found.append(bar("G0", size, ours[size], ("its parts alone", parts), PARTS))
    return found


def gloo(steps: dict[str, Step]) -> list[dict]:
    """all_reduce of CUDA tensors through torch, beside gloo's."""
    result = steps["peers"].result if "peers" in steps else {}
    ours, theirs = result.get("ringwood_us", {}), result.get("gloo_us", {})
    found = []
    for size in sorted(map(int, ours.keys() & theirs.keys())):
        wanted = SMALL if size <= 8 else LARGE if size >= 1 << 20 else None
        if wanted:
            time, peer = ours[str(size)], theirs[str(size)]
            found.append(bar("gloo", size, time, ("gloo", peer), 1 / wanted))
    return found


def bar(name: str, size: int, time_us: float, beside: tuple[str, float], most: float) -> dict:
    what, beside_us = beside
    value = time_us / beside_us
    return {
        "bar": name,
        "bytes": size,
        "time_us": round(time_us, 1),
        "beside": what,
        "beside_us": round(beside_us, 1),
        "value": round(value, 3),
        "wanted": f"<= {most:.3g}",
        "reached": value <= most,
    }


def bars(steps: dict[str, Step]) -> list[dict]:
    return staged(steps) + gloo(steps)


def sentence(found: dict) -> str:
    said = "reached" if found["reached"] else "NOT REACHED"
    return (
        f"{found['bar']:<4} {found['bytes']:>11} B: {found['time_us']:.0f} us, {found['beside']} "
        f"{found['beside_us']:.0f} us: {found['value']:.2f}, wanted {found['wanted']}: {said}"
    )

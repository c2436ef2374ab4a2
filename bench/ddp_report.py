"""What bench/ddp has measured, condensed and as a table. Times are seconds in, milliseconds out."""

import statistics

BACKENDS = ["ringwood", "gloo"]
KINDS = ["step", "computation", "exposed", "communication"]


def round_times(seconds: dict[str, list[float]]) -> dict[str, tuple[float, float]]:
    """Best and median milliseconds of each kind in one round of one backend.

    The two steps of a pair run one right after the other, so the median of their differences is
    what a busy machine spoils least; the best of the exposed is the difference of the bests.
    """
    times = {
        kind: (min(values) * 1e3, statistics.median(values) * 1e3)
        for kind, values in seconds.items()
    }
    pairs = zip(seconds["step"], seconds["computation"], strict=True)
    difference = statistics.median(step - computation for step, computation in pairs)
    best = times["step"][0] - times["computation"][0]
    return {**times, "exposed": (best, difference * 1e3)}


def condense(rounds: list[dict[str, list[float]]]) -> dict[str, dict[str, float]]:
    """The best of all rounds and the median of the rounds' medians, in milliseconds."""
    each = [round_times(seconds) for seconds in rounds]
    told = {
        kind: {
            "best_ms": min(times[kind][0] for times in each),
            "median_ms": statistics.median(times[kind][1] for times in each),
        }
        for kind in KINDS
    }
    # The difference of what is kept, not the luckiest difference.
    told["exposed"]["best_ms"] = told["step"]["best_ms"] - told["computation"]["best_ms"]
    return told


def ratios(told: dict) -> dict[str, dict[str, float | None]]:
    """gloo / ringwood; None where ringwood's time is hidden altogether (0 or less)."""
    out = {}
    for kind in KINDS:
        out[kind] = {}
        for which in ("best_ms", "median_ms"):
            ours, theirs = told["ringwood"][kind][which], told["gloo"][kind][which]
            out[kind][which.removesuffix("_ms")] = round(theirs / ours, 3) if ours > 0 else None
    return out


def table(told: dict) -> str:
    heads = ["step", "without communication", "exposed", "communication alone"]
    lines = [f"| ms, best (median) | {' | '.join(heads)} |", "|---|---|---|---|---|"]
    for backend, times in told.items():
        cells = [f"{times[k]['best_ms']:.1f} ({times[k]['median_ms']:.1f})" for k in KINDS]
        lines.append(f"| {backend} | {' | '.join(cells)} |")
    if set(BACKENDS) <= told.keys():
        shown = [
            " ".join(
                text.format("hidden" if value is None else f"{value:.2f}x")
                for text, value in (("{}", ratio["best"]), ("({})", ratio["median"]))
            )
            for ratio in ratios(told).values()
        ]
        lines.append(f"| gloo / ringwood | {' | '.join(shown)} |")
    return "\n".join(lines)

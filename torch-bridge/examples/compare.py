"""Puts two runs of train.py side by side: python compare.py WORKSPACE WORKSPACE"""

import json
import sys
from pathlib import Path

import torch


def weights(workspace: Path) -> dict[str, torch.Tensor]:
    return torch.load(workspace / "checkpoint.pt", map_location="cpu", weights_only=True)["model"]


def largest_difference(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    if a.keys() != b.keys():
        raise ValueError(f"the runs trained different models: {a.keys() ^ b.keys()}")
    return max((a[name] - b[name]).abs().max().item() for name in a)


def compare(first: Path, second: Path) -> str:
    results = [json.loads((folder / "result.json").read_text()) for folder in (first, second)]
    seconds = [sum(row["seconds"] for row in result["epochs"]) for result in results]
    rows = [
        ("", *(result["backend"] for result in results)),
        ("ranks", *(str(result["ranks"]) for result in results)),
        ("held-out accuracy", *(f"{result['accuracy']:.4f}" for result in results)),
        ("time per step (median)", *(f"{result['step_ms']:.2f} ms" for result in results)),
        ("training", *(f"{value:.1f} s" for value in seconds)),
    ]
    lines = [f"{title:<24}{left:>14}{right:>14}" for title, left, right in rows]
    difference = largest_difference(weights(first), weights(second))
    lines.append(f"{'largest difference of the weights':<38}{difference:>14.1e}")
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(compare(Path(sys.argv[1]), Path(sys.argv[2])))

"""How long a test may take: ten times what it usually does, at least 30 and at most 180 s.

`tests/usual_seconds.json` has the tests that usually take more than 3 s; `tools/test --record`
writes it from a whole run.
"""

import functools
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
USUAL = ROOT / "tests" / "usual_seconds.json"
MIN_S, MAX_S = 30, 180
RECORDED_S = MIN_S / 10


@functools.cache
def usual_seconds() -> dict[str, float]:
    return json.loads(USUAL.read_text()) if USUAL.exists() else {}


def limit_s(test: str) -> float:
    return min(max(10 * usual_seconds().get(test, 0), MIN_S), MAX_S)


def record(seconds: dict[str, float]) -> None:
    """Takes these as what the tests usually take; others keep what they had."""
    usual = usual_seconds() | {test: round(took, 1) for test, took in seconds.items()}
    slow = {test: took for test, took in sorted(usual.items()) if took > RECORDED_S}
    USUAL.write_text(json.dumps(slow, indent=1) + "\n")

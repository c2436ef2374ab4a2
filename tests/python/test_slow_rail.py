"""A rail that becomes slow while a group runs, between network namespaces: bench/scale/slow_rail,
in short."""

import argparse
import os

import pytest
from bench_scripts import script
from ringwood_command import BINARY
from shapes import Shape, cluster

PROGRAM = BINARY.parents[1] / "bench" / "bench_slow_rail"
AGAIN = "the network is measured again"


def run(shape: Shape, folder, host: int, rail: int) -> dict:
    """What the ranks saw: 1 MiB summed up for 24 seconds, in whose middle third this rail has a
    quarter of its rate."""
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built")
    args = argparse.Namespace(
        bytes=1 << 20, seconds=24, interval=2, host=host, rail=rail, build=PROGRAM.parents[1]
    )
    try:
        with cluster(shape) as on:
            return script("scale/slow_rail").run(on, args, str(folder))
    except OSError as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")


def first_right(shape: Shape, folder, right, host: int = 3, rail: int = 0) -> dict:
    """Of three: this machine has other work."""
    for attempt in range(3):
        own = folder / str(attempt)
        own.mkdir()
        found = run(shape, own, host, rail)
        if right(found):
            break
    if not right(found) and os.getloadavg()[0] > 2 * (os.cpu_count() or 1):
        pytest.skip(f"nothing can be measured beside so much other work: {os.getloadavg()}")
    assert right(found), found
    return found


@pytest.mark.slow
def test_a_rail_is_compared_with_its_own_rate(tmp_path):
    """Half of the others' by nature is no reason to measure; a quarter of that is."""

    def right(found: dict) -> bool:
        lines = zip(found["lines_s"], found["lines"], strict=True)
        times = [at for at, line in lines if AGAIN in line]
        return bool(times) and times[0] > 8

    rails = Shape("2 rails", rate=200, hosts=2, ranks_per_host=2, rails=2, slow_port=(1, 1, 0.5))
    first_right(rails, tmp_path, right, host=1, rail=1)

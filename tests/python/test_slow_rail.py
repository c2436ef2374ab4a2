"""A rail that becomes slow while a group runs, between network namespaces: bench/scale/slow_rail,
in short."""

import argparse
import itertools

import pytest
from bench_scripts import script
from ringwood_command import BINARY
from shapes import Shape, cluster
from wakeups import first_right

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


@pytest.mark.slow
def test_a_rail_is_compared_with_its_own_rate(tmp_path):
    """Half of the others' by nature is no reason to measure; a quarter of that is."""

    def right(found: dict) -> bool:
        lines = zip(found["lines_s"], found["lines"], strict=True)
        times = [at for at, line in lines if AGAIN in line]
        return bool(times) and times[0] > 8

    attempts = itertools.count()

    def measure() -> tuple[dict]:
        own = tmp_path / str(next(attempts))
        own.mkdir()
        return (run(rails, own, host=1, rail=1),)

    rails = Shape("2 rails", rate=200, hosts=2, ranks_per_host=2, rails=2, slow_port=(1, 1, 0.5))
    (found,) = first_right(measure, right, tries_s=60)
    assert right(found), found

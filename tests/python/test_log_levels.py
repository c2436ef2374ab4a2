"""RINGWOOD_LOG: what each level tells."""

import re

from ringwood_command import run

LINE = re.compile(r"^\S+:\d+ \[[-\d]+\] RINGWOOD (?P<level>[A-Z]+) (?P<text>.*)$", re.MULTILINE)
TCP = ("--transport", "tcp")
COUNT = 20


def told(level: str, *words: str) -> dict[str, list[str]]:
    """The lines of all-reduces of 8, 64 and 512 B on two ranks, by their level."""
    sizes = ["-b", "8", "-e", "512", "-f", "8", "-n", str(COUNT)]
    more = {"RINGWOOD_LOG": level, "RINGWOOD_CALIBRATION": "off"}
    ran = run("perf", "all_reduce", "--ranks", "2", *sizes, *words, **more)
    assert ran.returncode == 0, ran.stderr
    lines: dict[str, list[str]] = {}
    for line in LINE.finditer(ran.stderr):
        lines.setdefault(line["level"], []).append(line["text"])
    return lines


def test_each_level_tells_more_than_the_one_before():
    levels = {level: set(told(level, *TCP)) for level in ("warn", "info", "debug")}
    assert levels["warn"] <= {"WARN"}
    assert levels["info"] - levels["warn"] == {"INFO"}
    assert levels["debug"] - levels["info"] == {"DEBUG"}


def test_debug_tells_what_a_start_did():
    lines = told("debug", *TCP)["DEBUG"]
    excluded = "RINGWOOD_TRANSPORTS excludes it"
    passed_over = "; ".join(f"not {name}: {excluded}" for name in ("loopback", "shm", "verbs"))
    ways = sorted(line for line in lines if line.startswith("mesh: "))
    assert ways == [f"mesh: rank {peer} by tcp; {passed_over}" for peer in (0, 1)]
    text = "\n".join(lines)
    assert re.search(r"^start: rank 1 has come after [\d.]+ s: process \d+ on \S+$", text, re.M)
    assert re.search(r"^tcp: opens \d+ connections? to rank 0 at \S+:\d+", text, re.M)


def test_debug_tells_why_no_better_transport_was_taken():
    lines = told("debug")["DEBUG"]
    assert "mesh: rank 1 by shm; not loopback: another process" in lines


def test_debug_tells_the_choice_for_each_class_of_sizes_once():
    """Not for each call: a call of a known size writes nothing."""
    lines = [line for line in told("debug")["DEBUG"] if line.startswith("choice: ")]
    of_all_reduce = [line for line in lines if line.startswith("choice: all_reduce of ")]
    assert len(of_all_reduce) < 2 * COUNT
    for size in (8, 64, 512):
        start = f"choice: all_reduce of {size} float32 B and more: "
        mine = [line for line in of_all_reduce if line.startswith(start)]
        assert len(mine) == 2, lines  # one of each rank
        assert re.search(r": \w+, \d+ segments: the shortest prediction, [\d.]+ us$", mine[0])


def test_debug_tells_attempts_that_failed():
    ran = run(
        "perf", "barrier", RANK="1", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="9",
        RINGWOOD_INIT_TIMEOUT="0.5", RINGWOOD_LOG="debug", RINGWOOD_HOST_ID="another",
    )  # fmt: skip
    assert ran.returncode == 1
    tried = r"store: attempt (\d+) to reach 127\.0\.0\.1:9 failed: .*; tries for [\d.]+ s more"
    numbers = [int(number) for number in re.findall(tried, ran.stderr)]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) > 1, ran.stderr

"""Somebody who has never seen `ringwood`: types --help of each command in a terminal, then what the
examples suggest, and gets a result."""

import re
import shutil
from typing import NamedTuple

import pytest
from ringwood_command import WAIT, job
from terminal import Terminal, terminal
from test_command import TREE, WITH_ACTIONS

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="there is no tmux")
LEAVES = [" ".join(path) for path in TREE if path and " ".join(path) not in WITH_ACTIONS]


class Try(NamedTuple):
    """Lines that are typed, and a pattern for what the last one prints."""

    lines: list[str]
    prints: str
    codes: tuple[int, ...] = (0,)


CHAIN = "ringwood schedule show broadcast chain > chain.txt"
TRACED = "RINGWOOD_TRACE_DIR=traces ringwood perf all_reduce --ranks 2 -b 1M -e 1M -n 5 > perf.txt"
MATRIX = "ringwood matrix --by-rank --ranks 2 --repeats 2 --transfer 5 --max-bytes 8M"
TRIES = {
    "perf": Try(["ringwood perf all_reduce --ranks 2 -b 8 -e 1K"], r"^ +1024 .* shm$"),
    "schedule show": Try(
        ["ringwood schedule show all_reduce ring --ranks 4"], r"^schedule rank 3 of 4 chunks 4"
    ),
    "schedule verify": Try(
        [CHAIN, "ringwood schedule verify broadcast --file chain.txt"], "proved"
    ),
    "schedule cost": Try([CHAIN, "ringwood schedule cost broadcast --file chain.txt"], r"\bus\b"),
    "schedule draw": Try(["ringwood schedule draw all_reduce ring --ranks 3"], r"^3 .*-> 0"),
    "schedule run": Try(
        [CHAIN, "ringwood schedule run broadcast --file chain.txt -b 1K -e 4K"], r"^ +4096 .* shm$"
    ),
    "explain": Try(["ringwood explain all_reduce 1M --ranks 8"], "ring"),
    "simulate": Try(["ringwood simulate all_reduce 1M --hosts 4"], "ring"),
    "doctor": Try(["ringwood doctor"], r"^1 host: \d+ errors?, \d+ warnings?", (0, 1, 2)),
    "matrix": Try([MATRIX], r"^rate of each pair alone, [MG]B/s", (0, 1)),
    "trace": Try([TRACED, "ringwood trace traces"], r"^# group perf: 2 ranks, \d+ recorded"),
    "tune": Try(
        ["ringwood tune all_reduce --ranks 2 -b 64K -e 64K --seconds 3 --output tuned.txt",
         "ringwood tune --diff tuned.txt default"],
        r"^# \d of 1 sizes? changes? (its|their) choice",
    ),
    "env": Try(["ringwood env"], r"^RINGWOOD_TIMEOUT +300 "),
    "algorithms": Try(["ringwood algorithms all_reduce"], "halving_doubling"),
    "completion": Try(["source <(ringwood completion bash)", "complete -p ringwood"], "_ringwood"),
    "man": Try(
        ["ringwood man pages", "mandoc -Tutf8 pages/ringwood-perf.1 | cat"], "RINGWOOD-PERF"
    ),
}  # fmt: skip


@pytest.fixture
def shell(tmp_path):
    with terminal(tmp_path, variables={"XDG_CACHE_HOME": str(tmp_path)}) as opened:
        yield opened


def test_every_command_is_tried():
    assert {*TRIES, "top"} == set(LEAVES)


def read_help(shell: Terminal, command: str) -> None:
    text, code = shell.run(f"ringwood {command} --help")
    assert code == 0
    assert re.search(rf"^EXAMPLES:\n(?s:.*)ringwood {command}", text, re.MULTILINE), text
    assert re.search(r"^EXIT CODES:\n +0 ", text, re.MULTILINE), text


@pytest.mark.parametrize("command", TRIES)
def test_from_help_to_a_result(shell, command):
    read_help(shell, command)
    *before, last = TRIES[command].lines
    for line in before:
        text, code = shell.run(line)
        assert code == 0, text
    text, code = shell.run(last)
    assert code in TRIES[command].codes, text
    assert re.search(TRIES[command].prints, text, re.MULTILINE), text


def test_top_from_help_to_a_result(shell, tmp_path):
    read_help(shell, "top")
    with job(tmp_path, size=2) as on:
        text, code = shell.run(f"ringwood top {' '.join(WAIT)} --once --pid {on.pids[0]}")
        assert code == 0
        assert re.search(r"^ +1 +\d+ .*all_reduce float32", text, re.MULTILINE), text


def test_what_is_misspelt_leads_on(shell):
    text, code = shell.run("ringwood pref all_reduce")
    assert code == 2 and "did you mean perf?" in text, text


@pytest.mark.parametrize("columns", [80, 120, 250])
def test_the_table_of_perf_fits_the_terminal(columns, tmp_path):
    with terminal(tmp_path, columns=columns) as opened:
        text, code = opened.run("ringwood perf all_reduce --ranks 2 -b 8 -e 8")
    assert code == 0
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if " size " in line)
    head = lines[at].split()[1:]
    assert lines[at + 1].startswith("#         (B) ")  # nothing has wrapped
    assert {"size", "time", "busbw", "#wrong", "p99", "algorithm"} <= set(head)
    assert (len(head) == 21) == (columns == 250)
    assert (f"# {21 - len(head)} more columns in a terminal " in text) == (columns < 250)

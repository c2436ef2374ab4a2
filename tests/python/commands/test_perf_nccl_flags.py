"""The flags of nccl-tests: the table in tools/perf/README.md, and the command that it describes."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from ringwood_command import ROOT, run

DOCUMENT = ROOT / "tools" / "perf" / "README.md"
SOURCES = ROOT / "tools" / "perf" / "nccl_tests"
# Flags come after it, as the last one counts.
BASE = ["perf", "all_reduce", "--format", "nccl-tests"]
BASE += ["-b", "8", "-e", "1K", "-n", "1", "-w", "0", "-g", "2"]
# What nccl-tests 2.19.6 takes, as letters.
THEIRS = "tgbeifnmwNpIKcodrzyTGCaRxDVJSMuh"
FLAGS = re.compile(
    r"^\| `(?P<words>-[^|]*)` \| (?:`(?P<long>--\w+)` )?\| (?P<here>\w+) \| [^|]+ \|$", re.M
)
VARIABLES = re.compile(r"^\| `(?P<name>NCCL_TESTS_[A-Z_*]+)` \| (?P<here>\w+) \| [^|]+ \|$", re.M)


@dataclass
class Row:
    words: list[str]  # the flag, its value, and what else it needs
    long: str | None
    here: str

    @property
    def flag(self) -> str:
        return self.words[0]

    def typed(self, folder: Path) -> list[str]:
        return [str(folder / word) if word.endswith(".json") else word for word in self.words]


def section() -> str:
    text = DOCUMENT.read_text()
    return re.search(r"^## In the format of nccl-tests\n(.*?)^\*\*", text, re.M | re.S)[1]


ROWS = [
    Row(found["words"].split(), found["long"], found["here"]) for found in FLAGS.finditer(section())
]
NAMES = [row.flag for row in ROWS] + [row.long for row in ROWS if row.long]
WARNED = [row for row in ROWS if row.here == "warned"]
VARIABLE_ROWS = {found["name"]: found["here"] for found in VARIABLES.finditer(section())}


def test_every_flag_of_nccl_tests_has_one_row():
    assert sorted(name[1:] for name in NAMES if len(name) == 2) == sorted(THEIRS)
    assert len(set(NAMES)) == len(NAMES) == 2 * len(THEIRS)
    assert {row.here for row in ROWS} == {"taken", "mapped", "warned"}
    # No line of the tables is one that is not read here.
    lines = [line for line in section().splitlines() if line.startswith("| `")]
    assert len(lines) == len(ROWS) + len(VARIABLE_ROWS)


def test_every_option_of_the_command_has_a_row():
    shown = re.search(r"^nccl-tests:\n(.*?)\n\n", run("perf", "--help").stdout, re.M | re.S)[1]
    # -N repeats the table in our own format, too.
    options = [*re.findall(r"^  (-\S+)", shown, re.M), "-N,--run_cycles"]
    assert "-g,--ngpus" in options and "-R,--local_register" in options
    source = (SOURCES / "nccl_options.cc").read_text()
    hidden = re.findall(r'"(-[^"]+)"', re.search(r"kIgnored\[\] = \{(.*?)\};", source, re.S)[1])
    assert {option[:2] for option in hidden} == {row.flag for row in WARNED} - {"-m", "--memory"}
    names = {name for option in options + hidden for name in option.split(",")}
    assert names - set(NAMES) == {"--format"}  # which chooses all of them


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.flag)
def test_a_flag_is_taken_without_a_word_or_told_in_one_line(row, tmp_path):
    done = run(*BASE, *row.typed(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == (row.here == "warned"), done.stderr
    assert all(re.match(rf"ringwood: {row.flag}\b", line) for line in lines)


def test_long_names_are_the_same_flags(tmp_path):
    """All at once, so that none of them is in the way of another one either."""
    words = []
    for row in ROWS:
        if row.flag != "-h":
            words += [row.long or row.flag, *row.typed(tmp_path)[1:]]
    done = run(*BASE, *words)
    assert done.returncode == 0, done.stderr
    told = re.findall(r"(?<= )(?:-\w|--memory)\b", done.stderr)
    assert sorted(told) == sorted(row.flag for row in WARNED)
    # What the examples of the table ask for.
    report = json.loads((tmp_path / "out.json").read_text())
    asked = {
        "nthreads": 1, "ngpus": 2, "minimum_bytes": 1024, "maximum_bytes": 2048, "step_factor": 2,
        "warmup_iters": 1, "iterations": 2, "aggregated_iterations": 2, "validation": 2,
        "blocking_collectives": "true", "per_iter_timing": "true", "per_iter_skip": 1,
    }  # fmt: skip
    assert {key: report["config"][key] for key in asked} == asked
    measured = [(line["size"], line["type"], line["redop"]) for line in report["results"]]
    assert measured == 2 * [(1024, "half", "max"), (2048, "half", "max")]  # in two cycles


def test_variables_of_nccl_tests_have_rows():
    assert set(VARIABLE_ROWS.values()) == {"taken", "warned", "silent"}
    sources = "".join(source.read_text() for source in SOURCES.glob("*.cc"))
    read = {name for name, here in VARIABLE_ROWS.items() if here != "silent"}
    assert set(re.findall(r'"(NCCL_TESTS_\w+)"', sources)) == read
    done = run(*BASE, **{name.replace("*", "SPREAD"): "0" for name in VARIABLE_ROWS})
    assert done.returncode == 0
    told = [line.split()[1] for line in done.stderr.splitlines()]
    assert told == [name for name, here in VARIABLE_ROWS.items() if here == "warned"]
    assert re.search(r"^# Avg bus bandwidth    : \S+ OK$", done.stdout, re.M)

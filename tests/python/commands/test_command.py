"""What is true of all of `ringwood`: help, completion, man pages, refusals, installing."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from processes import PATIENCE_S
from ringwood_command import BINARY, ROOT, environment, run


def tree() -> list[list[str]]:
    """Every command and every command of those, as the helps list them."""

    def below(path: list[str]) -> list[str]:
        _, _, rest = run(*path, "--help").stdout.partition("\nSubcommands:\n")
        names = re.findall(r"^  (\w+)", rest.partition("\n\n")[0], re.MULTILINE)
        return [[*path, name] for name in names]

    first = below([])
    return [[], *first, *(path for command in first for path in below(command))]


TREE = tree()
WITH_ACTIONS = {path[0] for path in TREE if len(path) > 1}


@pytest.fixture(scope="module")
def checked() -> subprocess.CompletedProcess:
    return run("man", "--check")


@pytest.mark.parametrize("path", TREE, ids=lambda path: " ".join(["ringwood", *path]))
def test_every_command_has_examples_that_parse_and_exit_codes(path, checked):
    help_text = run(*path, "--help").stdout
    assert "\nEXAMPLES:\n" in help_text
    assert re.search(r"\nEXIT CODES:\n  0  \S", help_text)
    mine = re.findall(rf"^{' '.join(['ringwood', *path])}: (.*)$", checked.stdout, re.MULTILINE)
    assert mine
    assert [told for told in mine if not told.startswith("parses: ringwood ")] == []


def test_all_examples_parse(checked):
    assert checked.returncode == 0, checked.stdout


def complete(*words: str) -> list[str]:
    """What bash offers for the last of the words."""
    line = " ".join(f"'{word}'" for word in words)
    script = f"""
        source <('{BINARY}' completion bash)
        COMP_WORDS=({line}) COMP_CWORD={len(words) - 1}
        _ringwood
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, cwd=ROOT / "tools"
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ringwood", "sche"], ["schedule"]),
        (["ringwood", "schedule", "dr"], ["draw"]),
        (["ringwood", "schedule", "draw", "all_g"], ["all_gather"]),
        (["ringwood", "schedule", "draw", "scatter", ""], ["linear"]),
        (["ringwood", "schedule", "draw", "--ranks", "8", "barrier", ""], ["dissemination"]),
        (["ringwood", "schedule", "draw", "all_reduce", "--ra"], ["--ranks"]),
        (["ringwood", "explain", "all_reduce", "1M", "--datatype", "bfl"], ["bfloat16"]),
        (["ringwood", "explain", "all_reduce", "1M", "--dtype", "bfl"], ["bfloat16"]),
        (["ringwood", "tune", "all_reduce", "--dt"], ["--dtype"]),
        (["ringwood", "explain", "all_reduce", "1M", "--datatype", "=", "bfl"], ["bfloat16"]),
        (["ringwood", "explain", "--parameters", "launch_fork.h"], ["launch_fork.h"]),
        (["ringwood", "explain", "--parameters", "def"], ["default"]),
        (["ringwood", "simulate", "all_reduce", "1M", "--rail-use", ""], ["striped", "rank"]),
        (["ringwood", "completion", ""], ["bash", "zsh", "fish"]),
        (["ringwood", "explain", "--json", "--toler"], ["--tolerance"]),
        (["ringwood", "perf", "all_g"], ["all_gather"]),
        (["ringwood", "perf", "all_reduce", "--datatype", "bfl"], ["bfloat16"]),
        (["ringwood", "perf", "--datatype", "float32,bfl"], ["float32,bfloat16"]),
        (["ringwood", "perf", "--algorithm", "double_t"], ["double_tree"]),
        (["ringwood", "perf", "--require", ""], ["verbs", "tcp"]),
        (["ringwood", "perf", "--memory", "re"], ["remapped"]),
        (["ringwood", "perf", "--format", "ncc"], ["nccl-tests"]),
        (["ringwood", "matrix", "--modes", "pa"], ["pairs"]),
        (["ringwood", "matrix", "--transport", "tc"], ["tcp"]),
        (["ringwood", "tune", "all_g"], ["all_gather"]),
        (["ringwood", "doctor", "--explain", "probe-unr"], ["probe-unreachable"]),
    ],
    ids=" ".join,
)
def test_bash_completes(words, offered):
    assert complete(*words) == offered


def test_no_two_options_of_a_command_have_one_name():
    """CLI11 2.4 ends the command for that, 2.3 takes it."""
    for path in TREE:
        text = run(*path, "--help").stdout.split("EXAMPLES")[0]
        listed = text.partition("\nPositionals:\n")[2].partition("\n\n")[0]
        for name, rest in re.findall(r"^  ([\w-]+) (.*)$", listed, re.MULTILINE):
            about = re.split("  +", rest)[-1]
            long = re.findall(rf"^  (?:-\w,)?--{name}[ ,].*$", text, re.MULTILINE)
            assert [line for line in long if not line.endswith(about)] == [], path


def test_bash_offers_every_command_and_option():
    assert complete("ringwood", "") == [path[0] for path in TREE if len(path) == 1]
    for path in TREE:
        if len(path) != 1 or path[0] in WITH_ACTIONS:
            continue
        text = run(*path, "--help").stdout.split("EXAMPLES")[0]
        shown = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", text, re.MULTILINE))
        assert "--help" in shown
        assert shown <= set(complete("ringwood", *path, "-")), path


def test_fish_completes(tmp_path):
    if not shutil.which("fish"):
        pytest.skip("no fish")
    script = tmp_path / "ringwood.fish"
    script.write_text(run("completion", "fish").stdout)

    def offered(line: str) -> list[str]:
        done = subprocess.run(
            ["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"],
            capture_output=True,
            text=True,
            check=True,
            env=environment(HOME=str(tmp_path)),
        )
        assert done.stderr == ""
        return [row.split("\t")[0] for row in done.stdout.splitlines()]

    assert offered("ringwood sche") == ["schedule"]
    assert offered("ringwood schedule dr") == ["draw"]
    assert offered("ringwood schedule draw barrier d") == ["dissemination"]
    assert offered("ringwood explain --datatype bfl") == ["bfloat16"]
    assert offered("ringwood schedule draw --root") == ["--root"]


# Types each line with a tab in an interactive zsh, and waits for what it then runs.
ZSH = r"""
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "fpath=($1 \$fpath); autoload -U compinit; compinit -D -u; PROMPT=; echo rea''dy"
zpty -r z output '*ready*'
shift
for line becomes in "$@"; do
  zpty -n -w z "$line"$'\t\n'
  zpty -r z output "*$becomes*"
done
"""


def test_zsh_completes(tmp_path):
    if not shutil.which("zsh"):
        pytest.skip("no zsh")
    (tmp_path / "_ringwood").write_text(run("completion", "zsh").stdout)
    (tmp_path / "bin").mkdir()
    told = tmp_path / "bin" / "ringwood"  # what the completed lines call
    told.write_text('#!/bin/sh\necho "<$*>"\n')
    told.chmod(0o755)
    lines = {
        "ringwood sche": "<schedule>",
        "ringwood schedule dr": "<schedule draw>",
        "ringwood schedule draw barrier dis": "<schedule draw barrier dissemination>",
        "ringwood explain --datatype bfl": "<explain --datatype bfloat16>",
        "ringwood algorithms --js": "<algorithms --json>",
    }
    words = [word for line in lines.items() for word in line]
    subprocess.run(
        ["zsh", "-f", "-c", ZSH, "zsh", tmp_path, *words],
        check=True,
        timeout=PATIENCE_S,  # one that is completed otherwise is waited for
        env=environment(
            PATH=f"{told.parent}:{os.environ['PATH']}", HOME=str(tmp_path), TERM="dumb"
        ),
    )


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("man") / "man1"
    assert run("man", str(folder)).returncode == 0
    return folder


def test_there_is_a_man_page_for_each_command(pages):
    names = {"ringwood.1"} | {f"ringwood-{path[0]}.1" for path in TREE if len(path) == 1}
    assert {page.name for page in pages.iterdir()} == names
    assert run("man").stdout.count("\n.SH NAME\n") == len(names)


def test_man_pages_render_without_warnings(pages):
    for page in sorted(pages.iterdir()):
        if shutil.which("groff"):
            groff = ["groff", "-man", "-ww", "-Tutf8", "-Z", str(page)]
            done = subprocess.run(groff, capture_output=True, text=True, check=True)
            assert done.stderr == ""
        if shutil.which("mandoc"):
            done = subprocess.run(
                ["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True
            )
            # Pages without a date are the same in every build.
            told = [line for line in done.stdout.splitlines() if "missing date" not in line]
            assert told == []


def test_a_man_page_says_what_the_help_says(pages):
    page = (pages / "ringwood-schedule.1").read_text()
    for section in ("NAME", "SYNOPSIS", '"SCHEDULE COST"', '"EXAMPLES"', '"EXIT CODES"'):
        assert f"\n.SH {section}\n" in page
    assert "\\-\\-parameters" in page
    assert "RINGWOOD_TRANSPORTS" in (pages / "ringwood.1").read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["prf"], "no command 'prf'; did you mean perf?"),
        (["schedule", "verfy"], "ringwood schedule has no command 'verfy'; did you mean verify?"),
        (["schedule"], "which command? show, verify, cost, draw, run"),
        (["explain", "--rnks", "8"], "no option --rnks; did you mean --ranks?"),
        (["explain", "--rnks=8"], "no option --rnks; did you mean --ranks?"),
        (["simulate", "--oversub=2"], "did you mean --oversubscription?"),
        (["env", "--quux"], "ringwood env has no option --quux; see"),
        (["explain", "all_reduce", "1M", "2M"], "'2M' is one word too many"),
        ([], "which command?"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_what_is_misspelt_is_one_sentence_with_the_nearest_name(words, told):
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert done.stderr.endswith("--help\n")
    assert len(done.stderr.splitlines()) == 1


# What comes before "-d", and what it takes.
WITH_TYPES = {
    "perf": ["all_reduce"],
    "schedule cost": ["all_reduce", "ring"],
    "schedule run": ["all_reduce", "ring"],
    "explain": ["all_reduce", "8"],
    "simulate": ["all_reduce", "8"],
    "tune": ["all_reduce"],
}


def test_every_command_with_a_type_has_the_same_option():
    found = set()
    for path in TREE:
        text = run(*path, "--help").stdout.split("EXAMPLES")[0]
        if re.search(r" (TYPE|OP)\b", text):
            found.add(" ".join(path))
            assert re.search(r"^  -d,--dtype,--datatype TYPE", text, re.MULTILINE), path
            assert re.search(r"^  -o,--op OP", text, re.MULTILINE), path
    assert found == set(WITH_TYPES)


@pytest.mark.parametrize("command", WITH_TYPES)
def test_types_are_read_and_refused_alike(command):
    def refused(*words: str) -> str:
        done = run(*command.split(), *WITH_TYPES[command], *words)
        assert (done.returncode, done.stdout) == (2, "")
        (line,) = done.stderr.splitlines()
        return line.removesuffix(f"; see ringwood {command} --help")

    names = "float64, float32, float16, bfloat16, float8_e4m3, float8_e5m2, int8, int16, int32"
    for option in ("-d", "--dtype", "--datatype"):
        assert refused(option, "float12").startswith(
            f"ringwood: 'float12' is not a data type; did you mean float32? Use one of {names}"
        )
    # Names of nccl-tests, read alike.
    for given, told in (("half", "float16"), ("double", "float64"), ("f8e4m3", "float8_e4m3")):
        assert refused("--dtype", given, "-o", "band") == (
            f"ringwood: {told} cannot be reduced by band"
        )


def test_env_is_there_as_json():
    knobs = json.loads(run("env", "--json", RINGWOOD_TIMEOUT="7").stdout)["knobs"]
    timeout = next(knob for knob in knobs if knob["name"] == "RINGWOOD_TIMEOUT")
    assert (timeout["value"], timeout["origin"], timeout["for"]) == ("7", "environment", "users")
    named = re.findall(r"^RINGWOOD_\w+", run("env").stdout, re.MULTILINE)
    assert [knob["name"] for knob in knobs] == named


@pytest.mark.parametrize("command", ["env", "algorithms"])
def test_fields_of_json_are_those_of_the_document(command):
    """tools/README.md has a list for each: "`name`, what it is"."""
    document = (ROOT / "tools" / "README.md").read_text()
    (told,) = re.findall(rf"^`ringwood {command} --json`: (.*?)\n\n", document, re.M | re.S)
    found = json.loads(run(command, "--json").stdout)
    assert list(found) == ["version", {"env": "knobs"}.get(command, command)]
    rows = found.popitem()[1]
    assert rows
    for row in rows:
        assert list(row) == re.findall(r"`(\w+)`", told)
        assert all(value is not None for value in row.values())


def test_json_has_whatever_a_variable_has():
    value = 'a "quoted" \\ \t name'
    knobs = json.loads(run("env", "--json", RINGWOOD_JOB_ID=value).stdout)["knobs"]
    assert value in [knob["value"] for knob in knobs]


def test_algorithms_are_there_as_json():
    rows = json.loads(run("algorithms", "--json").stdout)["algorithms"]
    lines = run("algorithms").stdout.splitlines()
    assert [f"{row['collective']:<16} {row['name']:<22}" for row in rows] == [
        line[:39] for line in lines
    ]
    some = json.loads(run("algorithms", "barrier", "--json").stdout)["algorithms"]
    assert [row["name"] for row in some] == ["dissemination"]
    refused = run("algorithms", "plus")
    assert (refused.returncode, "unknown collective" in refused.stderr) == (2, True)


def test_it_installs_and_runs_without_torch(tmp_path):
    build = BINARY.parents[1]
    if not (build / "build.ninja").exists():
        pytest.skip(f"{BINARY} is in no build folder")
    meson = [sys.executable, "-m", "mesonbuild.mesonmain", "install", "-C", build, "--no-rebuild"]
    subprocess.run(
        [*meson, "--tags", "runtime", "--destdir", tmp_path], check=True, capture_output=True
    )
    names = {file.name: file for file in tmp_path.rglob("*") if file.is_file()}
    assert {"ringwood-perf.1", "ringwood.1", "_ringwood", "ringwood.fish"} <= names.keys()
    assert len(list(tmp_path.rglob("completions/ringwood"))) == 1
    (binary,) = tmp_path.rglob("bin/ringwood")
    needed = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout
    libraries = [line.split()[0] for line in needed.splitlines()]  # not where they lie
    assert not re.search("torch|c10|python", " ".join(libraries))
    done = subprocess.run(
        [binary, "perf", "all_reduce", "--sizes", "8", "-n", "1", "--ranks", "2"],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr

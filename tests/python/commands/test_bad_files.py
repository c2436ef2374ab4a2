"""Files that are not what an option wants: one sentence that names the option and the file."""

import subprocess

import pytest
from processes import PATIENCE_S
from ringwood_command import BINARY, environment

SIMULATE = ["simulate", "all_reduce", "1M", "--hosts", "2"]
REPORT = ["perf", "all_reduce", "--html", "report.html"]
OPTIONS = {
    "perf --matrix": [*REPORT, "--matrix"],
    "perf --compare": [*REPORT, "--compare"],
    "perf --replay": ["perf", "--replay"],
    "simulate --like": [*SIMULATE, "--like"],
    "simulate --parameters": [*SIMULATE, "--parameters"],
    "simulate --compare": [*SIMULATE, "--html", "report.html", "--compare"],
    "simulate --replay": ["simulate", "--replay"],
    "explain --parameters": ["explain", "all_reduce", "1M", "--parameters"],
    "explain --tuning": ["explain", "all_reduce", "1M", "--tuning"],
    "tune --file": ["tune", "all_reduce", "--ranks", "2", "--file"],
    "schedule run": ["schedule", "run"],
    "schedule verify": ["schedule", "verify"],
    "trace": ["trace"],
}
CONTENTS = {
    "empty": b"",
    "words": b"some words\n",
    "other": b'{"a": 1}\n',
    "broken": b'{"hosts": [1, 2',
    "list": b"[1, 2]\n",
    "binary": bytes(range(255, -1, -1)) * 8,
}


@pytest.mark.parametrize("words", OPTIONS.values(), ids=OPTIONS.keys())
@pytest.mark.parametrize("kind", ["absent", "folder", *CONTENTS])
def test_one_sentence_names_the_option_and_the_file(words, kind, tmp_path):
    file = tmp_path / f"{kind}.file"
    if kind == "folder":
        file.mkdir()
    elif kind != "absent":
        file.write_bytes(CONTENTS[kind])
    done = subprocess.run(
        [BINARY, *words, file.name],
        capture_output=True,
        text=True,  # raises where bytes of the file that are no text are printed
        timeout=PATIENCE_S,
        env=environment(),
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("ringwood: ")
    assert file.name in done.stderr
    if words[-1].startswith("--"):
        assert words[-1] in done.stderr
    assert "should not happen" not in done.stderr


@pytest.mark.parametrize(
    ("file", "why"),
    [("/dev/zero", "it is larger than 256 MiB"), ("/proc/self/mem", "it cannot be read: ")],
)
def test_what_has_no_end_or_fails_while_it_is_read(file, why):
    words = [*OPTIONS["perf --matrix"], file]
    done = subprocess.run(
        [BINARY, *words], capture_output=True, text=True, timeout=PATIENCE_S, env=environment()
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"ringwood: --matrix {file}: {why}")

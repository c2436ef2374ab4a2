"""bench/versions: two builds in turns, and what counts as slower."""

import json
import math
import subprocess
import sys

import pytest
from bench_scripts import script
from processes import PATIENCE_S, ROOT
from ringwood_command import BINARY, environment
from test_peers import MACHINE, SETTINGS


def test_two_versions_take_turns(tmp_path):
    for build in ("before", "now"):
        (tmp_path / build / "tools").mkdir(parents=True)
        (tmp_path / build / "tools" / "ringwood").symlink_to(BINARY.resolve())
    command = [sys.executable, ROOT / "bench" / "versions", tmp_path / "before"]
    command += ["--build", tmp_path / "now", "--output", tmp_path, "--rounds", "2"]
    command += ["--ranks", "2", "--collectives", "all_reduce", "--sizes", "8,16384"]
    command += ["--places", "host,loopback", "--least", "0.001"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, env=environment()
    )
    report = json.loads((tmp_path / "versions.json").read_text())
    means = [case["best"] for case in report["cases"]]
    assert done.returncode == (math.prod(means) < 1), done.stderr
    assert [(c["place"], c["memory"], c["bytes"]) for c in report["cases"]] == [
        *(("host", memory, size) for memory in ("private", "shared") for size in (8, 16384)),
        *(("loopback", "private", size) for size in (8, 16384)),
    ]
    assert all(len(case["pairs"]) == 2 for case in report["cases"])
    assert (tmp_path / "versions.md").read_text() in done.stderr


def test_slower_is_what_best_and_median_say():
    versions = script("versions")
    quick, slow = (1.0, 1.0), (2.0, 2.0)
    better = versions.ratios([versions.Pair(slow, quick), versions.Pair(quick, (1.0, 4.0))])
    assert better == (1.0, pytest.approx(1.125))
    worse = versions.ratios([versions.Pair(quick, slow)])
    assert worse == (0.5, 0.5)
    # The median alone, or the best alone, may have met a slow minute.
    assert not versions.Ratios(0.5, 1.0).slower_than(0.95)
    assert not versions.Ratios(1.0, 0.5).slower_than(0.95)
    case = versions.Setting("host", "all_reduce", 2, "private")
    told = {**SETTINGS, "least": 0.95}
    text = versions.report(MACHINE, told, {(case, 8): worse, (case, 1024): better})
    assert "1 below 0.95 by both figures; host, all_reduce, 2 ranks, private, 8 B." in text
    assert "| **0.500 (0.500)** | 1.00 (1.12) | 0.707 |" in text


def test_versions_without_a_build(tmp_path):
    command = [sys.executable, ROOT / "bench" / "versions", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "has no tools/ringwood; it has to be a build folder" in done.stderr

"""`ringwood perf --ladder`: the same exchange through each layer, from a socket to torch."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from ladder_sums import RUNGS, assert_losses_add_up
from pair_hosts import pair_hosts, run_on
from processes import PATIENCE_S
from ringwood_command import BINARY, environment, run
from wakeups import wakeups

FEW = ["--batches", "3"]
# The python3 that has torch, where the tests' own has it.
OURS = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
needs_torch = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch", "ringwood"))),
    reason="torch with this package is not installed",
)


def ladder(text: str) -> dict[str, dict]:
    rungs = {rung["rung"]: rung for rung in json.loads(text)["rungs"]}
    assert list(rungs) == RUNGS
    return rungs


def test_ranks_of_this_host(tmp_path):
    path = tmp_path / "ladder.json"
    page = ["--html", str(tmp_path / "ladder.html")]
    words = ["perf", "--ladder", "--sizes", "8,64K", *FEW, "--json", str(path), *page]
    done = run(*words, PATH="/usr/bin:/bin:/nonesuch")
    assert done.returncode == 0, done.stderr
    found = json.loads(path.read_text())
    rungs = ladder(path.read_text())
    assert found["sizes"] == [8, 65536]
    assert "Time of an exchange" in (tmp_path / "ladder.html").read_text()
    assert rungs["port"]["why_not"] == "both ranks are on one host"
    assert rungs["port"]["time_us"] == [None, None]
    assert rungs["raw verbs"]["why_not"] == "both ranks are on one host"
    for name in ("raw socket", "link", "collective"):
        assert rungs[name]["why_not"] == "" and min(rungs[name]["time_us"]) > 0, name
    # The link goes over shared memory: a socket is no part of it.
    assert rungs["raw socket"]["beside"] and not rungs["link"]["beside"]
    below = [rungs[name] for name in RUNGS if not rungs[name]["beside"]]
    for loss in found["largest_losses"]:
        size = found["sizes"].index(loss["bytes"])
        times = [rung["time_us"][size] for rung in below if not rung["why_not"]]
        steps = [above - below for below, above in pairwise(times)]
        assert loss["us"] == pytest.approx(max(steps))
        assert loss["sentence"] in done.stdout
    assert_losses_add_up(found, done.stdout)
    assert "What each rung takes more" in (tmp_path / "ladder.html").read_text()


def test_torch_has_the_transports_of_the_others(tmp_path):
    """And nothing of a launcher: a python3 that only tells its environment shows it."""
    spy = tmp_path / "bin" / "python3"
    spy.parent.mkdir()
    spy.write_text(f"#!/bin/sh\nenv > {tmp_path}/$$\necho no torch here\n")
    spy.chmod(0o755)
    words = ["perf", "--ladder", "--sizes", "8", *FEW, "--transport", "tcp", "--json"]
    path = f"{spy.parent}:{os.environ['PATH']}"
    done = run(*words, PATH=path, TORCHELASTIC_USE_AGENT_STORE="True", ROLE_RANK="1")
    assert done.returncode == 0, done.stderr
    rungs = ladder(done.stdout)
    assert "link over tcp" in rungs["link"]["what"] and not rungs["raw socket"]["beside"]
    assert_losses_add_up(json.loads(done.stdout), done.stderr)
    assert "no torch here" in rungs["torch"]["why_not"]
    told = [file.read_text().splitlines() for file in tmp_path.iterdir() if file.is_file()]
    assert len(told) == 2
    for variables in told:
        assert "RINGWOOD_TRANSPORTS=tcp" in variables
        assert not any(re.match("TORCHELASTIC_|ROLE_|RANK=", line) for line in variables)


@needs_torch
def test_under_torchrun_torch_is_measured(tmp_path):
    """torchrun tells its ranks to meet at its own store: the ladder's torch must not try to."""
    path = tmp_path / "ladder.json"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python"]
    launcher += ["--nproc-per-node", "2"]
    words = [str(BINARY), "perf", "--ladder", "--sizes", "8", *FEW, "--json", str(path)]
    done = subprocess.run(
        [*launcher, *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment(PATH=OURS),
    )
    assert done.returncode == 0, done.stderr
    torch = ladder(path.read_text())["torch"]
    assert torch["why_not"] == "" and torch["time_us"][0] > 0, torch
    assert_losses_add_up(json.loads(path.read_text()), done.stdout)


@needs_torch
@pytest.mark.parametrize("ranks", [2, 3])
def test_what_was_measured_survives_a_torch_that_dies(tmp_path, ranks):
    """Its python3 is killed when it is told the second size."""
    mortal = tmp_path / "bin" / "python3"
    mortal.parent.mkdir()
    script = f"""#!/bin/sh
{sys.executable} -c '
import sys
for line in sys.stdin:
    if line.startswith("65536 "): break
    print(line, end="", flush=True)' | {sys.executable} "$@"
"""
    mortal.write_text(script)
    mortal.chmod(0o755)
    words = ["perf", "--ladder", "--ranks", str(ranks), "--sizes", "8,64K,1M", *FEW, "--json"]
    done = run(*words, PATH=f"{mortal.parent}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    rungs = ladder(done.stdout)
    assert "the torch process has ended" in rungs["torch"]["why_not"]
    first, *later = rungs["torch"]["time_us"]
    assert first > 0 and later == [None, None]
    assert min(rungs["collective"]["time_us"]) > 0
    assert "ended early: the torch process has ended" in done.stderr
    assert_losses_add_up(json.loads(done.stdout), done.stderr)


def test_between_hosts_every_rung_moves_the_bytes(tmp_path: Path):
    words = [str(BINARY), "perf", "--ladder", "--sizes", "1M", *FEW, "--json"]
    where = ["--rendezvous", f"file://{tmp_path}/store"]
    try:
        with pair_hosts(2, 400) as hosts, wakeups() as machine:
            # No python3 there: the last rung is not measured, and says so.
            results = run_on(hosts, [*words, *where], environment(PATH="/sbin:/nonesuch"))
    except OSError as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")
    assert [code for code, _, _ in results] == [0, 0], results
    rungs = ladder(results[0][1])
    assert "python3" in rungs["torch"]["why_not"]
    assert "no rate of rail0" in rungs["port"]["why_not"]  # a virtual one
    # As --transport and RINGWOOD_TRANSPORTS say it.
    assert "verbs is not among the transports" in rungs["raw verbs"]["why_not"]
    least = 2**20 / (400e6 / 8) * 1e6
    for name in ("raw socket", "link", "collective"):
        assert 0.9 * least < rungs[name]["time_us"][0] < 3 * least * machine.late, rungs
    assert "link over tcp" in rungs["link"]["what"]
    assert_losses_add_up(json.loads(results[0][1]), results[0][2])
    assert [one["base"] for one in json.loads(results[0][1])["losses"]] == ["raw socket"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["all_reduce", "--ladder"], "takes the place of the collectives"),
        (["--ladder", "--ranks", "1"], "two ranks or more"),
        (["--ladder", "--csv", "out.csv"], "no use for --csv"),
        (["--ladder", "--min-busbw", "40"], "no use for --min-busbw"),
        (["--ladder", "--require", "verbs"], "no use for --require"),
        (["--ladder", "--format", "nccl-tests"], "no use for --format"),
        (["--ladder", "-n", "5"], "no use for --iters"),
    ],
)
def test_refuses(words, told):
    done = run("perf", *words)
    assert done.returncode == 2 and told in done.stderr, done.stderr

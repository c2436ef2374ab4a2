"""bench/peers between two hosts: what it writes, and that nothing of its hosts is left."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from networks import network
from processes import PATIENCE_S, ROOT
from ringwood_command import BINARY, environment


def namespaces_of(bench: int) -> set[str]:
    """Other tests have some of their own."""
    done = subprocess.run(["ip", "netns"], capture_output=True, text=True)
    names = {line.split()[0] for line in done.stdout.splitlines()}
    return {name for name in names if name.startswith(f"ringwood-{bench}-")}


@pytest.fixture
def cables():
    """Skips where no network namespaces can be made."""
    try:
        with network("cable"):
            assert len(namespaces_of(os.getpid())) == 2
    except OSError as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")


def start_peers(*arguments) -> subprocess.Popen:
    # What a shell starts in the background ignores an interrupt, and so would the bench.
    command = ["env", "--default-signal=INT", sys.executable, ROOT / "bench" / "peers", *arguments]
    return subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


@pytest.mark.usefixtures("cables")
def test_a_short_run_over_networks(tmp_path):
    (tmp_path / "build" / "tools").mkdir(parents=True)
    (tmp_path / "build" / "tools" / "ringwood").symlink_to(BINARY.resolve())
    with start_peers(
        *("--networks", "cable,gigabit,loopback", "--only", "ringwood", "--rounds", "1"),
        *("--sizes", "8,65536", "--build", tmp_path / "build", "--output", tmp_path / "results"),
    ) as bench:
        output, error = bench.communicate(timeout=PATIENCE_S)
    assert bench.returncode == 0, error
    report = json.loads((tmp_path / "results" / "tcp.json").read_text())
    assert {(row["network"], row["bytes"]) for row in report["rows"]} == {
        (net, size) for net in ("cable", "gigabit", "loopback") for size in (8, 65536)
    }
    assert (tmp_path / "results" / "tcp.md").read_text() in output
    assert not namespaces_of(bench.pid)


def at_work(names: set[str]) -> bool:
    """Ranks run in one of these namespaces."""
    found = [subprocess.run(["ip", "netns", "pids", name], capture_output=True) for name in names]
    return any(done.stdout.strip() for done in found)


@pytest.mark.usefixtures("cables")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_namespaces_go_with_the_bench(number, tmp_path):
    options = ["--networks", "cable", "--only", "ringwood", "--output", tmp_path]
    bench = start_peers(*options, "--build", BINARY.resolve().parent.parent)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not at_work(namespaces_of(bench.pid)):
            assert bench.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        bench.send_signal(number)
        output, error = bench.communicate(timeout=PATIENCE_S)
        assert bench.returncode != 0, output + error
    finally:
        bench.kill()
    assert not namespaces_of(bench.pid)

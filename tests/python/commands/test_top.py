"""What `ringwood top` shows of running jobs: as lines of JSON, as a table, on a terminal."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from pair_hosts import pair_hosts
from processes import PATIENCE_S
from ringwood_command import BINARY, WAIT, Job, environment, job, names_of_another_user, run
from shapes import Shape, cluster
from terminal import terminal
from wakeups import wakeups


@contextlib.contextmanager
def lines(on: Job, rank: int = 0, prefix=()) -> Iterator[Iterator[dict]]:
    """The objects of `ringwood top --json`, as they come."""
    with subprocess.Popen(
        [*prefix, str(BINARY), "top", "--json", *WAIT, "--pid", str(on.pids[rank])],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as top:
        try:
            yield (json.loads(line) for line in top.stdout)
        finally:
            top.kill()


def within(objects: Iterator[dict], right, seconds: float = PATIENCE_S) -> dict:
    """The first that is right."""
    deadline = time.monotonic() + seconds
    for one in objects:
        if right(one):
            return one
        assert time.monotonic() < deadline, one
    raise AssertionError("the job has ended")


def ranks_of(one: dict) -> list[dict]:
    return one["groups"][0]["ranks"]


def in_trouble(one: dict) -> list[tuple[int, str]]:
    trouble = ("late", "behind", "stopped", "lost", "failed")
    return [(r["rank"], r["condition"]) for r in ranks_of(one) if r["condition"] in trouble]


def only_rank_2_is_late(one: dict) -> bool:
    """And the others wait for it."""
    waited = [rank["waited"] for rank in ranks_of(one)]
    return in_trouble(one) == [(2, "late")] and waited.pop(2) < 0.3 < min(waited)


def mostly(objects: Iterator[dict], right, samples: int = 10, wrong: int = 2) -> list[dict]:
    """The first samples in a row of which all but a few are right. (The machine has other work: for
    as long as that lasts, another rank is late indeed.)"""
    seen = deque(maxlen=samples)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        seen.append(next(objects))
        bad = [one for one in seen if not right(one)]
        if len(seen) == samples and len(bad) <= wrong:
            return [one for one in seen if right(one)]
        assert time.monotonic() < deadline, [(in_trouble(one), ranks_of(one)) for one in bad]


def second(one: dict) -> float:
    """Of the sample, rounded down."""
    return datetime.fromisoformat(one["time"]).timestamp()


def seen_after(objects: Iterator[dict], began: float, right, samples: int) -> dict:
    """The first that is right, which is among so many samples of after this moment. Their number
    counts, not the time: on a machine with other work, one may come late."""
    later = 0
    for one in objects:
        later += second(one) > began
        if right(one):
            assert later <= samples, one
            return one
        assert later < samples, one
    raise AssertionError("the job has ended")


def top(on: Job, *more: str) -> subprocess.CompletedProcess:
    return run("top", *WAIT, "--pid", str(on.pids[0]), *more)


# ---- who is late, who is stopped -----------------------------------------------------------------


def test_a_rank_that_comes_5_ms_late_is_named_and_then_a_stopped_one(tmp_path):
    with job(tmp_path, late=2, us=5000) as on, lines(on) as objects:
        with wakeups() as machine:
            within(objects, only_rank_2_is_late)
            seen = mostly(objects, lambda one: in_trouble(one) in ([], [(2, "late")]))
        named = [one for one in seen if in_trouble(one)]
        assert len(named) >= 5, [ranks_of(one) for one in seen]
        # Where other work delays it, it is later still.
        late = min(named, key=lambda one: ranks_of(one)[2]["late_ms"])
        assert 3 < ranks_of(late)[2]["late_ms"] < 15 * machine.late, late
        assert len(late["trouble"]) == 1
        assert re.search(rf"rank 2 of \w+ \(.*, pid {on.pids[2]}\) comes", late["trouble"][0])
        assert all(0 < r["operations_per_s"] < 1 / 5e-3 for r in ranks_of(late)), late
        assert all(r["busbw_gbs"] > 0 and r["operation"].startswith("all_reduce float32")
                   for r in ranks_of(late)), late  # fmt: skip

        on.signal(1, signal.SIGSTOP)
        # Silent for a second in the second sample at the latest, of which the first may be a late
        # one of before.
        stopped = seen_after(objects, time.time(), lambda one: (1, "stopped") in in_trouble(one), 3)
        assert "has not answered for" in ranks_of(stopped)[1]["why"]
        # Of the second before it was stopped, rank 2 may still be late.
        within(objects, lambda one: in_trouble(one) == [(1, "stopped")])

        on.signal(1, signal.SIGCONT)
        well = (1, "is well again")
        within(objects, lambda one: well in [(e["rank"], e["text"]) for e in one["events"]])


def test_nobody_is_late_where_all_come_at_once(tmp_path):
    with job(tmp_path, size=2) as on, lines(on) as objects:
        next(objects)
        seen = mostly(objects, lambda one: in_trouble(one) == [], wrong=1)
        assert all(one["groups"][0]["relayed"] for one in seen)
        assert len({one["time"] for one in seen}) >= 2, "one a second"


def test_a_job_that_overruns_the_recorder_has_no_late_rank(tmp_path):
    """Its window is shorter than a second. Of this size all operations are recorded."""
    with job(tmp_path, size=2, bytes=1 << 20) as on, lines(on) as objects:
        within(objects, lambda one: all(r["operations_per_s"] > 0 for r in ranks_of(one)))
        for one in mostly(objects, lambda one: in_trouble(one) == [], samples=6, wrong=1):
            assert all(r["late_ms"] < 2 for r in ranks_of(one)), one
            assert all(r["inside"] > 0.4 for r in ranks_of(one)), one


def test_the_others_are_seen_while_rank_0_is_stopped(tmp_path):
    size = 6
    with job(tmp_path, size=size) as on, lines(on, rank=1) as objects:
        within(objects, lambda one: len(ranks_of(one)) == size)
        on.signal(0, signal.SIGSTOP)
        seen_after(objects, time.time(), lambda one: (0, "stopped") in in_trouble(one), 4)
        # Of the second before it was stopped, others may still be late.
        seen = within(objects, lambda one: in_trouble(one) == [(0, "stopped")])
        assert not seen["groups"][0]["relayed"]
        conditions = [r["condition"] for r in ranks_of(seen)[1:]]
        assert set(conditions) <= {"waiting", "computing", "moving"}, seen
        # One rank's wait for rank 0 is enough: a look takes less than the second that is between
        # two of them, so that none is left out.
        with wakeups() as machine:
            begin, *_, end = (second(next(objects)) for _ in range(4))
        assert end - begin < 5 * machine.late
        on.signal(0, signal.SIGCONT)


def test_a_job_that_stands_still_has_not_ended(tmp_path):
    with job(tmp_path, size=2) as on, lines(on) as objects:
        within(objects, lambda one: len(ranks_of(one)) == 2)
        for rank in (0, 1):
            on.signal(rank, signal.SIGSTOP)
        within(objects, lambda one: in_trouble(one) == [(0, "stopped"), (1, "stopped")])
        for rank in (0, 1):
            on.signal(rank, signal.SIGCONT)
        back = within(objects, lambda one: in_trouble(one) == [] and ranks_of(one)[0]["inside"])
        assert [r["pid"] for r in ranks_of(back)] == on.pids


@pytest.mark.parametrize("samples", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_a_slow_link_is_no_late_rank(tmp_path, samples):
    """One of four hosts has a tenth of the others' rate: operations take longer than with the
    others, and nobody is late in any sample."""
    shape = Shape("top", rate=400, hosts=4, slow_port=(2, 0, 0.1))
    more = {"RINGWOOD_TRANSPORTS": "tcp", "XDG_CACHE_HOME": str(tmp_path)}

    def moves(one: dict) -> bool:
        return all(rank["operations_per_s"] > 0 for rank in ranks_of(one))

    try:
        with cluster(shape) as cable:
            places = []
            for space, variables in map(cable.place, range(4)):
                places.append((["ip", "netns", "exec", space], variables | more))
            with (
                job(tmp_path, bytes=1 << 20, places=places) as on,
                lines(on, prefix=places[0][0]) as objects,
            ):
                within(objects, moves)
                one = mostly(objects, lambda one: in_trouble(one) == [], samples, wrong=0)[-1]
                (path,) = ranks_of(one)[0]["paths"]
                assert path["transport"] == "tcp" and path["port"] and path["gbs"] > 0, path
                assert sorted(rank["pid"] for rank in ranks_of(one)) == sorted(on.pids)
    except OSError as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")


def test_a_link_that_becomes_slow_is_an_alarm_and_no_late_rank(tmp_path):
    """Three seconds in a row, against the prediction of the network as it was measured."""
    mbit = 400
    more = {"XDG_CACHE_HOME": str(tmp_path), "RINGWOOD_REMEASURE": "3600"}

    def ratio(one: dict) -> float:
        return one["groups"][0]["measured_over_predicted"] or 0

    try:
        with pair_hosts(4, mbit) as hosts:
            places = []
            for space, variables in map(hosts.place, range(4)):
                places.append((["ip", "netns", "exec", space], variables | more))
            with (
                job(tmp_path, bytes=1 << 18, places=places) as on,
                lines(on, prefix=places[0][0]) as objects,
            ):
                quiet = within(objects, lambda one: 0 < ratio(one) < 2)
                assert not quiet["groups"][0]["alarm"]
                hosts.slow_down(2, 3, mbit / 10)
                alarm = within(
                    objects, lambda one: one["groups"][0]["alarm"] and in_trouble(one) == []
                )
                assert ratio(alarm) >= 2
                said = r"group \w+: operations take [\d.]+ times what is predicted"
                assert re.fullmatch(said, alarm["trouble"][0]), alarm["trouble"]
                mostly(objects, lambda one: in_trouble(one) == [], samples=6, wrong=0)
                hosts.slow_down(2, 3, mbit)
                within(objects, lambda one: not one["groups"][0]["alarm"])
    except OSError as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")


# ---- which job, and whose ------------------------------------------------------------------------


def test_no_job_an_unknown_one_and_one_of_several(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert run("top", "--once", "--pid", "1").returncode in (1, 2)
    with job(tmp_path / "a", size=2) as a, job(tmp_path / "b", size=2) as b:
        assert top(a, "--once").returncode == top(b, "--once").returncode == 0
        several = run("top", "--once")
        assert several.returncode == 2
        assert "several jobs run here" in several.stderr
        ours = {json.loads(top(one, "--once", "--json").stdout)["job"] for one in (a, b)}
        assert len(ours) == 2
        assert ours <= set(re.findall(r"--job (\w+)", several.stderr))  # others may run here
        chosen = [run("top", "--once", "--json", "--job", name) for name in ours]
        assert {json.loads(one.stdout)["job"] for one in chosen} == ours
        assert run("top", "--once", "--job", "zzz").returncode == 2
        # Not waited for, which would be longer than `run` waits: it is a choice.
        assert run("top", "--once", "--wait", "3600").returncode == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_is_refused_and_root_is_not(tmp_path):
    with job(tmp_path, size=2) as on:
        assert top(on, "--once").returncode == 0
        other = subprocess.run(
            ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
             str(BINARY), "top", "--once"],
            capture_output=True, text=True, env=environment(), timeout=PATIENCE_S,
        )  # fmt: skip
        assert other.returncode == 1
        assert "only their user and root may look" in other.stderr
        # Nor by the name of the socket: the kernel says who asks.
        (name,) = {n for n in on.names() if f"/{on.pids[0]}/" in n}
        name = re.search(rf"@(ringwood-status-\S+/{on.pids[0]}/\S+)",
                         Path("/proc/net/unix").read_text())[1]  # fmt: skip
        script = (
            "import os, socket; os.setgid(65534); os.setuid(65534)\n"
            f"s = socket.socket(socket.AF_UNIX); s.settimeout({PATIENCE_S})\n"
            f"s.connect('\\0{name}')\n"
            "s.sendall(bytes([5, 0, 0, 0, 0, 0, 0, 0, 0])); print(len(s.recv(100)))"
        )
        asked = subprocess.run(
            ["python3", "-c", script], capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert asked.stdout.strip() in ("0", ""), asked.stdout
        assert on.ranks[0].poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_names_that_another_user_has_made_are_nothing(tmp_path):
    with job(tmp_path, size=2) as on:
        assert top(on, "--once").returncode == 0
        with names_of_another_user(on) as group:
            seen = json.loads(top(on, "--once", "--json").stdout)
            assert [rank["pid"] for rank in ranks_of(seen)] == on.pids, seen
            assert len(seen["groups"]) == 1 and seen["trouble"] == []
            assert seen["job"] == group[:8]


def test_a_job_of_another_version_is_said(tmp_path):
    name = f"ringwood-status-9/{os.geteuid()}/{os.getpid()}/0000000000000001/0"
    with socket.socket(socket.AF_UNIX) as old:
        old.bind("\0" + name)
        old.listen(8)
        refused = run("top", "--once", "--pid", str(os.getpid()))
        assert refused.returncode == 1
        assert "another version of ringwood: use the `ringwood`" in refused.stderr


def test_nothing_stays_when_the_job_ends(tmp_path):
    with job(tmp_path, size=2) as on:
        with lines(on) as objects:
            next(objects)
            on.end()
            list(objects)  # ends with the job
        assert on.names() == []


def test_the_knob_hides_a_job(tmp_path):
    hidden = [([], {"RINGWOOD_STATUS": "0"})] * 2
    with job(tmp_path, size=2, seconds=1.5, places=hidden) as on:
        while on.ranks[0].poll() is None:
            assert on.names() == []
            time.sleep(0.01)
        assert [rank.wait(PATIENCE_S) for rank in on.ranks] == [0, 0], "it has run"


# ---- tables and screens --------------------------------------------------------------------------


def test_the_table_of_once(tmp_path):
    with job(tmp_path, size=2) as on:
        done = top(on, "--once")
    assert done.returncode == 0, done.stderr
    heading = next(line for line in done.stdout.splitlines() if "operation" in line)
    for word in ("rank", "pid", "state", "op/s", "GB/s", "late"):
        assert word in heading
    rows = [line for line in done.stdout.splitlines() if "all_reduce float32 x" in line]
    assert [row.split()[0] for row in rows] == ["0", "1"], done.stdout
    assert "shm to 1 rank" in done.stdout


@pytest.mark.skipif(not shutil.which("tmux"), reason="there is no tmux")
def test_the_screen_in_tmux(tmp_path):
    """At two sizes, by the keys, and the terminal as it was at the end."""
    with job(tmp_path, late=1, us=5000) as on:
        words = [str(BINARY), "top", *WAIT, "--pid", str(on.pids[0])]
        command = f"{shlex.join(words)}; echo left with $?; sleep 3600"
        with terminal(tmp_path, shlex.join(["sh", "-c", command]), 150, 30) as shown:
            screen = shown.until(r"^ +1 +\d+ late +all_reduce.* [1-9]\d* .*█$")
            assert re.search(r"ringwood top +job \w{8} +group \w+ +4 ranks", screen), screen
            assert "rank 1: comes" in screen and "! rank 1 of world" in screen, screen
            shown.key("s")
            shown.until("sort: lateness")
            shown.command("resize-window", "-x", "90", "-y", "16")
            small = shown.until("q quit")
            assert max(map(len, small.splitlines())) <= 90 and "late" in small
            shown.key("q")
            shown.until("left with 0")


def test_what_is_refused_is_said():
    for arguments, said in (
        (["--serve", "--json"], "--serve goes alone"),
        (["--serve", "--address", "0.0.0.0"], "RINGWOOD_KEY_FILE"),
        (["--token"], "RINGWOOD_KEY_FILE"),
        (["--ras-port", "x"], "--ras-port"),
    ):
        refused = run("top", *arguments)
        assert refused.returncode == 2, arguments
        assert "see ringwood top --help" in refused.stderr
        assert said in refused.stderr
    assert "EXAMPLES" in run("top", "--help").stdout

"""`ringwood trace --pid` and `--job`: the records of a job that runs and goes on."""

import contextlib
import itertools
import json
import os
import signal
import socket
import struct
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from pair_hosts import pair_hosts
from processes import PATIENCE_S
from ringwood_command import BINARY, WAIT, Job, environment, job, run

LARGE = 4 << 20  # of this size all operations and steps are recorded


def seen(on: Job, right, rank: int = 0, prefix=()) -> None:
    """`top` has seen ranks that are right."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        words = [*prefix, str(BINARY), "top", "--once", "--json", *WAIT]
        done = subprocess.run(
            [*words, "--pid", str(on.pids[rank])],
            capture_output=True, text=True, env=environment(), timeout=PATIENCE_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        ranks = json.loads(done.stdout)["groups"][0]["ranks"] if done.stdout else []
        if ranks and right(ranks):
            return
        assert time.monotonic() < deadline, done.stdout


def begun(on: Job, rank: int = 0, prefix=()) -> None:
    """The group is complete, and operations are under way."""
    seen(on, lambda ranks: all(one["operations_per_s"] > 0 for one in ranks), rank, prefix)


def answered(on: Job, *words: str, rank: int = 0, prefix=()) -> subprocess.CompletedProcess:
    """What `trace` says of a rank that runs. One that gets no core for a second does not answer, so
    it is asked again."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        done = subprocess.run(
            [*prefix, str(BINARY), "trace", "--pid", str(on.pids[rank]), *words],
            capture_output=True, text=True, env=environment(), timeout=PATIENCE_S,
        )  # fmt: skip
        if done.returncode == 0 or "does not answer" not in done.stderr:
            break
        assert time.monotonic() < deadline, done.stderr
    assert done.returncode == 0, done.stderr
    return done


def trace(on: Job, *more: str, rank: int = 0, prefix=()) -> dict:
    done = answered(on, "--json", "-", *more, rank=rank, prefix=prefix)
    (group,) = json.loads(done.stdout)["groups"]
    return group | {"text": done.stderr}


def whole(on: Job, rank: int = 0, prefix=(), operations: int = 1) -> dict:
    """A trace with the records of all ranks, in time, of so many operations at least."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = trace(on, rank=rank, prefix=prefix)
        if not found["remarks"] and found["operations"] >= operations:
            return found
        assert time.monotonic() < deadline, found["text"]


def goes_on(on: Job) -> None:
    assert [rank.poll() for rank in on.ranks] == [None] * len(on.ranks)


# ---- what is seen --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [4096, LARGE], ids=["4KiB", "4MiB"])
def test_a_late_rank_is_named_while_the_job_runs(tmp_path, size):
    """And the job goes on: it may be asked again, and ends well."""
    with job(tmp_path, size=3, bytes=size, late=2, us=20000) as on:
        begun(on)
        for _ in range(2):
            found = whole(on, operations=12)
            assert found["verdict"] == "late rank", found["text"]
            assert found["late_ranks"][0]["rank"] == 2, found["text"]
            assert found["late_ranks"][0]["operations"] >= 10, found["text"]
            assert found["late_ranks"][0]["middle_us"] > 15000, found["text"]
            assert found["size"] == 3, found["text"]
            goes_on(on)
        on.end()


def test_the_records_are_those_of_now(tmp_path):
    with job(tmp_path, size=2, bytes=4096, late=1, us=5000) as on:
        begun(on)
        worst = [trace(on, "--worst", "1")["worst"][0]["sequence"]]
        before = trace(on)["operations"]
        deadline = time.monotonic() + PATIENCE_S
        while trace(on)["operations"] <= before:  # no more than one text in a second
            assert time.monotonic() < deadline, "the same text again and again"
            time.sleep(0.5)
        assert worst[0] >= 0


def test_any_rank_and_the_name_of_the_job_will_do(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with job(tmp_path / "a", size=2) as a, job(tmp_path / "b", size=3) as b:
        names = {}
        for on in (a, b):
            begun(on)
            done = run("top", "--once", "--json", "--pid", str(on.pids[1]))
            names[json.loads(done.stdout)["job"]] = len(on.pids)
        for name, size in names.items():
            done = run("trace", "--job", name, "--json", "-")
            assert done.returncode == 0, done.stderr
            assert [one["size"] for one in json.loads(done.stdout)["groups"]] == [size]
        assert trace(b, rank=2)["size"] == 3
        both = run("trace", "--job", "")
        assert both.returncode == 2 and "several jobs run here" in both.stderr
        assert all(f"--job {name}" in both.stderr for name in names)


def test_the_time_line_of_a_running_job(tmp_path):
    with job(tmp_path, size=3, bytes=LARGE) as on:
        begun(on)
        file = tmp_path / "run.json"
        answered(on, "--perfetto", str(file), rank=1)
        goes_on(on)
    events = json.loads(file.read_text())["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert len(names) == 6 and sum("predicted" in name for name in names.values()) == 3
    operations = Counter(e["pid"] for e in events if e["ph"] == "X" and e["cat"] == "operation")
    assert set(operations) == set(names) and min(operations.values()) >= 3


def test_who_is_waited_for_while_a_rank_is_stopped(tmp_path):
    for stopped in (1, 0):
        # Nearly always outside of its operations.
        with job(tmp_path, size=3, bytes=4096, late=stopped, us=100_000) as on:
            begun(on)
            on.signal(stopped, signal.SIGSTOP)
            seen(on, lambda ranks, one=stopped: ranks[one]["condition"] == "stopped", rank=2)
            found = trace(on, rank=2)
            said = "\n".join(found["remarks"])
            assert f"2 of 3 ranks have told their records; missing: {stopped}" in said
            assert f"pid {on.pids[stopped]}): it does not answer: stopped," in said
            assert f"s and waits for rank {stopped}" in said and "all_reduce float32 x" in said
            assert "other hosts" not in said
            on.signal(stopped, signal.SIGCONT)
            begun(on)
            assert whole(on)["late_ranks"][0]["rank"] == stopped


def test_ranks_of_other_hosts_are_reached_by_way_of_rank_0(tmp_path):
    more = {"RINGWOOD_TRANSPORTS": "tcp", "XDG_CACHE_HOME": str(tmp_path)}
    try:
        with pair_hosts(3, 400) as hosts:
            places = []
            for space, variables in map(hosts.place, range(3)):
                places.append((["ip", "netns", "exec", space], variables | more))
            with job(tmp_path, size=3, bytes=1 << 16, late=1, us=20000, places=places) as on:
                begun(on, prefix=places[0][0])
                for rank in (0, 2):
                    found = whole(on, rank, places[rank][0])
                    assert found["verdict"] == "late rank", found["text"]
                    assert found["late_ranks"][0]["rank"] == 1, found["text"]
                on.signal(0, signal.SIGSTOP)
                alone = trace(on, rank=2, prefix=places[2][0])
                said = "\n".join(alone["remarks"])
                assert "1 of 3 ranks have told their records; missing: 0, 1" in said
                assert said.count("rank 0, by way of which ranks of other hosts are asked") == 1
                on.signal(0, signal.SIGCONT)
    except OSError as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")


def test_a_job_that_is_traced_again_and_again_is_not_disturbed(tmp_path):
    """Nobody is taken for dead, and every trace is whole."""
    with job(tmp_path, size=3, bytes=LARGE) as on:
        begun(on)
        for rank in (0, 1, 2) * 4:
            answered(on, "--json", "-", rank=rank)
        goes_on(on)
        on.end()


# ---- what cannot be seen -------------------------------------------------------------------------


def refused(*words: str, code: int) -> str:
    """The one sentence."""
    done = run("trace", *words)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert done.stdout == "" and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def a_pid_of_nobody() -> int:
    ended = subprocess.Popen(["true"])
    ended.wait()
    return ended.pid


def test_what_is_no_job_is_said(tmp_path):
    assert "there is no such process" in refused("--pid", str(a_pid_of_nobody()), code=2)
    with subprocess.Popen(["sleep", "3600"]) as other:
        assert "sleep has no group of ringwood" in refused("--pid", str(other.pid), code=2)
        other.kill()
    with job(tmp_path, size=2) as on:
        begun(on)
        assert "no such job here; there are: --job" in refused("--job", "zzz", code=2)
        said = refused(str(tmp_path), "--pid", str(on.pids[0]), code=2)
        assert "without the folder of another one" in said
    assert "--pid" in refused("--pid", "0", code=2)
    assert "by --pid or --job" in refused(code=2)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_is_refused(tmp_path):
    with job(tmp_path, size=2) as on:
        begun(on)
        other = subprocess.run(
            ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
             str(BINARY), "trace", "--pid", str(on.pids[0])],
            capture_output=True, text=True, env=environment(), timeout=PATIENCE_S,
        )  # fmt: skip
        assert other.returncode == 2
        assert "belongs to another user (user 0): only its user and root may look" in other.stderr
        goes_on(on)


PAGE = struct.pack("<iiB I iBIi", 0, 1, 1, 1, 0, 0, 0, os.getpid())
PAGE += struct.pack("<I", 4) + b"fake" + struct.pack("<I", 0)
HERE, MAKING, FAILED = 0, 1, 3
ASK_PIECE = 4
GROUPS = itertools.count(1 << 40)


def piece(query: bytes, state: int, total: int, text: bytes, offset: int | None = None) -> bytes:
    _, number, rank, asked = struct.unpack("<BQiI", query)
    offset = asked if offset is None else offset
    return struct.pack("<BQiIII", state, number, rank, offset, total, len(text)) + text


@contextlib.contextmanager
def a_fake_job(answer) -> Iterator[int]:
    """Of one rank, whose records `answer` makes of a query; None: the connection ends. Its pid."""
    door = socket.socket(socket.AF_UNIX)
    name = f"ringwood-status-1/{os.geteuid()}/{os.getpid()}/{next(GROUPS):016x}/0"
    door.bind(f"\0{name}")
    door.listen(16)
    ends = [door]

    def serve(end: socket.socket) -> None:
        with end, contextlib.suppress(OSError, struct.error):
            while head := end.recv(4):
                query = end.recv(struct.unpack("<I", head)[0])
                reply = PAGE if len(query) == 5 else answer(query)
                if reply is None:
                    return
                end.sendall(struct.pack("<I", len(reply)) + reply)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                ends.append(door.accept()[0])
                threading.Thread(target=serve, args=(ends[-1],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield os.getpid()
    finally:
        for end in ends:  # an end that was accepted has the name too
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def test_a_job_of_an_older_version_is_said():
    with a_fake_job(lambda query: None) as pid:
        said = refused("--pid", str(pid), code=1)
    assert "is of an older version of ringwood" in said and "RINGWOOD_TRACE_DIR" in said


def test_a_job_that_ends_meanwhile_is_said():
    gone = threading.Event()
    with contextlib.ExitStack() as stack:

        def answer(query: bytes) -> None:
            if not gone.is_set():
                gone.set()
                stack.close()

        pid = stack.enter_context(a_fake_job(answer))
        said = refused("--pid", str(pid), code=1)
    assert gone.is_set() and "the job has ended meanwhile" in said


def test_what_a_rank_sends_is_not_trusted():
    """Each with one sentence, and soon."""
    answers = {
        "no records at all": lambda q: piece(q, FAILED, 0, b"no records\x1b[2J at all"),
        "it sent no valid message": lambda q: piece(q, HERE, 1 << 24, b"x", offset=7),
        " it sent no valid message": lambda q: piece(q, HERE, 3, b"more than three"),
        "  it sent no valid message": lambda q: piece(q, HERE, 100, b""),
        "   it sent no valid message": lambda q: b"\xff" * 200,
        "    it sent no valid message": lambda q: piece(q, 9, 0, b""),
        "it does not answer": lambda q: piece(q, MAKING, 0, b""),
        "has not the records of a rank": lambda q: piece(q, HERE, 2, b"[]"),
        " has not the records of a rank": lambda q: piece(q, HERE, 8, b"\xff\xfe{][\x00\x1b}"),
        "  has not the records of a rank": lambda q: piece(q, HERE, 0, b""),
    }
    for words, wrong in answers.items():

        def answer(query: bytes, wrong=wrong) -> bytes:
            return wrong(query) if query[0] == ASK_PIECE else piece(query, MAKING, 0, b"")

        with a_fake_job(answer) as pid:
            done = run("trace", "--pid", str(pid))
        said = done.stderr
        assert done.returncode in (1, 2) and said.count("\n") == 1, (words, said)
        assert "\x1b" not in said
        if words.strip() == "no records at all":
            assert "no records?[2J at all" in said
        else:
            assert words.strip() in said and "rank 0 of" in said, said

"""`ringwood trace`: the time line of a job, and who is blamed: a late rank is not taken for a slow
link, nor the other way round."""

import json
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from pair_hosts import pair_hosts, run_on
from processes import PATIENCE_S
from ringwood_command import ROOT, environment, run
from wakeups import first_right, measures_again, wakeups

JOB = ROOT / "build" / "tests" / "late_rank"
MBIT = 400
LATE_MS = 5


def job(folder: Path, count: int, calls: int, late: int) -> list[str]:
    """The words of a job of so many bytes, with a rank that is late at every call; -1: none."""
    return [str(JOB), f"file://{folder}/store", str(count), str(calls), str(late), str(LATE_MS)]


def on_one_host(folder: Path, ranks: int, count: int, calls: int, late: int) -> Path:
    """Runs it by shared memory; the folder of its traces."""
    traces = folder / "traces"
    traces.mkdir(exist_ok=True)
    started = [
        subprocess.Popen(
            job(folder, count, calls, late),
            env=environment(RANK=str(rank), WORLD_SIZE=str(ranks), RINGWOOD_TRACE_DIR=str(traces)),
        )
        for rank in range(ranks)
    ]
    assert [process.wait(timeout=PATIENCE_S) for process in started] == [0] * ranks
    return traces


def across(hosts, folder: Path, calls: int, late: int, algorithm: str = "direct") -> Path:
    """Likewise, a rank on each host; large enough that the slow link costs about as much."""
    traces = folder / "traces"
    traces.mkdir(exist_ok=True)
    words = job(folder, 1 << 20, calls, late)
    more = environment(
        RINGWOOD_TRACE_DIR=str(traces), XDG_CACHE_HOME=str(folder), RINGWOOD_ALGORITHM=algorithm
    )
    results = run_on(hosts, words, more)
    assert [code for code, _, _ in results] == [0] * len(results), results
    return traces


def blame(traces: Path) -> dict:
    done = run("trace", str(traces), "--json", "-")
    assert done.returncode == 0, done.stderr
    (group,) = json.loads(done.stdout)["groups"]
    return group | {"text": done.stderr}


def blamed(folder: Path, ranks: int, count: int, late: int, without=()) -> dict:
    """What is said of a job of which one rank comes 5 ms late: that it does, and by how much. Where
    others are late as well, beside other work, it is less: then of another job."""

    def measure() -> tuple:
        traces = on_one_host(Path(tempfile.mkdtemp(dir=folder)), ranks, count, 20, late)
        for name in without:
            (traces / name).unlink()
        return (blame(traces),)

    def right(found: dict) -> bool:
        first = next(iter(found["late_ranks"]), {"rank": -1, "middle_us": 0})
        return first["rank"] == late and first["middle_us"] > 4500

    (found,) = first_right(measure, right)
    assert right(found), found["text"]
    return found


@pytest.fixture(scope="module")
def hosts():
    try:
        with pair_hosts(4, MBIT) as made:
            yield made
    except OSError as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")


@measures_again
@pytest.mark.parametrize(("ranks", "count"), [(2, 8), (3, 4 << 20)], ids=["8B", "4MiB"])
@pytest.mark.parametrize("late", [0, 1])
def test_a_rank_that_is_late_by_5_ms_is_named(tmp_path, ranks, count, late):
    found = blamed(tmp_path, ranks, count, late)
    assert found["verdict"] == "late rank", found["text"]
    assert found["late_ranks"][0]["operations"] >= 10, found["text"]
    assert any(f"rank {late} entered " in one["sentence"] for one in found["worst"])


def late_is_named(hosts, folder: Path, late: int) -> None:
    found = blame(across(hosts, folder, 8, late))
    assert found["verdict"] == "late rank", found["text"]
    assert found["late_ranks"][0]["rank"] == late, found["text"]


def slow_is_named(hosts, folder: Path, sender: int, receiver: int, missing: int = -1) -> None:
    hosts.slow_down(sender, receiver, MBIT / 4)
    try:
        traces = across(hosts, folder, 8, -1)
    finally:
        hosts.slow_down(sender, receiver, MBIT)
    (traces / f"world-rank{missing}.json").unlink(missing_ok=True)
    found = blame(traces)
    assert found["verdict"] == "slow link", found["text"]
    worst = found["slow_links"][0]
    assert (worst["from"], worst["to"]) == (sender, receiver), found["text"]
    assert worst["way"] == "tcp over rail0"
    words = f"rank {sender} to {receiver}, tcp over rail0, step "
    assert any(words in one["sentence"] for one in found["worst"]), found["text"]


def test_a_late_rank_is_no_slow_link(hosts, tmp_path):
    late_is_named(hosts, tmp_path, 1)


def test_a_slow_link_is_no_late_rank(hosts, tmp_path):
    slow_is_named(hosts, tmp_path, 2, 3)


def tries():
    """What is planted: 50 slow links and 25 late ranks, in turns. A ring uses the links to the next
    rank only, other algorithms use these too."""
    for i in range(50):
        yield "slow link", (i % 4, (i + 1) % 4)
        if i % 2:
            yield "late rank", (i // 2) % 4


@pytest.mark.slow
def test_neither_is_mistaken_for_the_other_in_50_tries(hosts, tmp_path):
    """Whatever else the machine does, and by the algorithms that the ranks choose themselves. Where
    other work disturbs most messages of a try, neither may stand out; but that is rare."""
    told = Counter()
    wrong = []
    for attempt, (planted, where) in enumerate(tries()):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        if planted == "slow link":
            hosts.slow_down(*where, MBIT / 4)
        try:
            late = where if planted == "late rank" else -1
            found = blame(across(hosts, folder, 8, late, algorithm=""))
        finally:
            if planted == "slow link":
                hosts.slow_down(*where, MBIT)
        told[planted, found["verdict"]] += 1
        if found["verdict"] not in (planted, "nothing"):
            wrong.append((planted, where, found["text"]))
        elif found["verdict"] == "slow link":
            told["right link"] += [found["slow_links"][0][end] for end in ("from", "to")] == [
                *where
            ]
        elif found["verdict"] == "late rank":
            told["right rank"] += found["late_ranks"][0]["rank"] == where
    print(dict(told))
    assert not wrong, (told, wrong)
    assert told["right link"] >= 45, told
    assert told["right rank"] >= 22, told


def test_clocks_of_hosts_are_aligned(hosts, tmp_path):
    """The namespaces have one clock, of which the ranks know nothing."""
    with wakeups() as machine:
        traces = across(hosts, tmp_path, 2, -1)
    for file in traces.iterdir():
        dump = json.loads(file.read_text())
        assert dump["clock"], file
        for _, offset, uncertainty in dump["clock"]:
            assert abs(offset) <= uncertainty < 5e6 * machine.late


def test_the_time_line_has_every_rank_and_an_arrow_for_each_message(tmp_path):
    traces = on_one_host(tmp_path, 3, 4 << 20, 3, -1)
    file = tmp_path / "run.json"
    done = run("trace", "--merge", str(traces), "--perfetto", str(file))
    assert done.returncode == 0, done.stderr
    events = json.loads(file.read_text())["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert len(names) == 6 and sum("predicted" in name for name in names.values()) == 3
    slices = [e for e in events if e["ph"] == "X"]
    operations = Counter(e["pid"] for e in slices if e["cat"] == "operation")
    assert set(operations) == set(names) and set(operations.values()) == {3}
    sends = [e for e in slices if e["name"].startswith("send ")]
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert set(starts) == set(ends) and len(starts) == len(sends) > 0
    threads = {(e["pid"], e["tid"]) for e in slices}
    for number, start in starts.items():
        assert start["pid"] != ends[number]["pid"]
        assert start["ts"] <= ends[number]["ts"]
        assert {(e["pid"], e["tid"]) for e in (start, ends[number])} <= threads
    ways = {e["args"].get("way") for e in sends}
    assert ways == {"shm", None}  # measured, predicted


def change(file: Path, alter) -> None:
    dump = json.loads(file.read_text())
    alter(dump)
    file.write_text(json.dumps(dump))


def forget_the_clock(dump: dict) -> None:
    """And its host was started 10 days before the others."""
    dump["clock"] = []
    for operation in dump["operations"]:
        for name in ("entered_ns", "begun_ns", "agreed_ns", "ended_ns", "waiting_ns"):
            operation[name] += 864 * 10**12 if operation[name] else 0
    for step in dump["steps"]:
        step[5] += 864 * 10**12 if step[5] else 0
        step[6] += 864 * 10**12


@measures_again
def test_a_rank_whose_clock_is_not_known_is_not_blamed(tmp_path):
    """The others still are, and the time line stays together."""

    def measure() -> tuple:
        traces = on_one_host(Path(tempfile.mkdtemp(dir=tmp_path)), 3, 4 << 20, 20, 0)
        change(traces / "world-rank1.json", forget_the_clock)
        return traces, blame(traces)

    def right(_, found: dict) -> bool:
        return [one["rank"] for one in found["late_ranks"]] == [0]

    traces, found = first_right(measure, right)
    assert right(traces, found), found["text"]
    assert any("1 ranks are not known: 1:" in remark for remark in found["remarks"])
    done = run("trace", str(traces), "--perfetto", "-")
    events = [e for e in json.loads(done.stdout)["traceEvents"] if e["ph"] == "X"]
    assert max(e["ts"] + e["dur"] for e in events) < 864e9 / 2


@measures_again
def test_a_late_rank_without_a_file_is_named(tmp_path):
    found = blamed(tmp_path, 3, 4 << 20, 2, without=["world-rank2.json"])
    assert any("missing: 2" in remark for remark in found["remarks"])


def test_a_slow_link_is_named_without_the_file_of_another_rank(hosts, tmp_path):
    slow_is_named(hosts, tmp_path, 0, 1, missing=3)


ALTERED = {
    "hosts of another group": lambda d: d.update(
        machine=d["machine"].replace("hosts=", "hosts=1x1", 1)
    ),
    "nodes of another group": lambda d: d.update(
        machine=d["machine"].replace("nodes=", "nodes=1x1", 1)
    ),
    "an offset beyond any": lambda d: d.update(clock=[[1, 2**62, 1]]),
    "a time beyond any": lambda d: d["operations"][0].update(ended_ns=2**62),
    "a number beyond any": lambda d: d["operations"][0].update(sequence=2**63 - 1),
    "another format": lambda d: d.update(format=2),
    "a step of a rank that there is not": lambda d: d["steps"][0].__setitem__(3, 3),
}


def test_a_file_that_was_altered_is_refused(tmp_path):
    """Each with one sentence that names the file."""
    traces = on_one_host(tmp_path, 3, 4 << 20, 2, -1)
    file = traces / "world-rank1.json"
    whole = file.read_text()
    assert "hosts= " in whole and "nodes= " in whole
    for name, alter in ALTERED.items():
        for rank in (0, 1):  # that which is read first, and another
            changed = traces / f"world-rank{rank}.json"
            before = changed.read_text()
            change(changed, alter)
            done = run("trace", str(traces))
            changed.write_text(before)
            if rank == 1 and " of another group" in name:
                assert done.returncode == 0  # the first file's counts
                continue
            assert done.returncode == 2 and changed.name in done.stderr, (name, done.stderr)
            assert done.stderr.count("\n") == 1, done.stderr
    done = run("trace", str(traces), str(file))
    assert done.returncode == 2 and "second file of rank 1" in done.stderr


def test_what_is_no_trace_is_refused(tmp_path):
    done = run("trace", str(tmp_path))
    assert done.returncode == 2 and "RINGWOOD_TRACE_DIR" in done.stderr
    for text in ("", "[]", '{"format":"ringwood-trace-1","group":"x"}', '{"format":'):
        (tmp_path / "x-rank0.json").write_text(text)
        done = run("trace", str(tmp_path))
        assert done.returncode == 2 and "x-rank0.json" in done.stderr, text

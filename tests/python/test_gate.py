"""tools/test counts tests right whatever they do, and runs those that failed again."""

import json
import sys
import textwrap
import time

import pytest
import suites
from gate import builds, limits, output, runner, side_by_side
from gate.output import Result
from gate.runner import Suite
from processes import PATIENCE_S
from wakeups import growing_limit, measures_again

FAR = time.monotonic() + 24 * 3600

GTEST = """
[==========] Running 4 tests from 1 test suite.
[ RUN      ] Links.order
[       OK ] Links.order (3 ms)
[ RUN      ] Links/All.sizes/0
partial line [  FAILED  ] Links/All.sizes/0, where GetParam() = shm (12 ms)
[ RUN      ] Links.verbs
[  SKIPPED ] Links.verbs (0 ms)
[  FAILED  ] Links/All.sizes/0, where GetParam() = shm
[ RUN      ] Links.crash
"""
# Behaves like a program of GoogleTest: five tests, of which two take it down, each in its own way.
PROGRAM = """
import os, sys, time
tests = ["A.passes", "A.crashes", "A.fails_once", "B.hangs", "B.passes"]
chosen = tests
for word in sys.argv[1:]:
    if word.startswith("--gtest_flagfile="):
        text = open(word.partition("=")[2]).read().strip()
        chosen = text.removeprefix("--gtest_filter=").split(":")
if "--gtest_list_tests" in sys.argv:
    group = ""
    for test in tests:
        if test in chosen:
            if test[:2] != group:
                group = test[:2]
                print(group)
            print("  " + test[2:] + "  # GetParam() = 1")
    sys.exit()
for test in tests:
    if test not in chosen:
        continue
    words = "\\nit waits for ever" if test == "B.hangs" else ""
    print(f"[ RUN      ] {test}{words}", flush=True)
    if test == "A.crashes":
        os.kill(os.getpid(), 11)
    if test == "B.hangs":
        time.sleep(1000)
    failed = test == "A.fails_once" and not os.path.exists(ONCE)
    if failed:
        open(ONCE, "w").close()
        print("it broke here")
    print(f"[{'  FAILED  ' if failed else '       OK '}] {test} (1 ms)", flush=True)
"""


@pytest.fixture
def logs(tmp_path, monkeypatch):
    for module in (runner, suites, builds):
        monkeypatch.setattr(module, "LOGS", tmp_path)
    monkeypatch.setattr(suites, "FLAKY", tmp_path / "flaky.json")
    return tmp_path


@pytest.fixture
def short_limits(monkeypatch):
    # Only what hangs meets its limit.
    monkeypatch.setattr(limits, "limit_s", lambda test: 1 if test == "B.hangs" else PATIENCE_S)


def program(folder) -> Suite:
    script = folder / "program.py"
    script.write_text(PROGRAM.replace("ONCE", repr(str(folder / "once"))))
    return Suite("program", [sys.executable, str(script)])


def outcomes(results: list[Result]) -> dict[str, str]:
    return {result.test: result.outcome for result in results}


def test_lines_are_counted():
    reader = output.Reader("suite")
    for line in GTEST.splitlines():
        reader.read(line)
    assert output.count(reader.results) == "1 passed, 1 failed, 1 skipped"
    assert reader.results[1].test == "Links/All.sizes/0"
    assert reader.running == "Links.crash"


def test_a_program_that_is_taken_down_goes_on_with_the_tests_after(logs, short_limits):
    results = runner.run_suite(program(logs), "[1]", FAR)
    assert outcomes(results) == {
        "A.passes": "passed",
        "A.crashes": "failed",
        "A.fails_once": "failed",
        "B.hangs": "failed",
        "B.passes": "passed",
    }
    why = {result.test: result.why for result in results if result.outcome == "failed"}
    assert why == {
        "A.crashes": "ended the program with status -11",
        "A.fails_once": "",
        "B.hangs": "took more than 1 s",
    }
    assert "it waits for" in (logs / "program.log").read_text()


def test_what_a_program_does_while_its_stacks_are_read_is_done_again(
    logs, short_limits, monkeypatch
):
    # Its test ends and the next one begins between the verdict and the kill.
    verdict, next_one = logs / "verdict", logs / "next"

    def dump_stacks(pid, log) -> None:
        verdict.touch()
        deadline = time.monotonic() + PATIENCE_S
        while not next_one.exists() and time.monotonic() < deadline:
            time.sleep(0.01)

    monkeypatch.setattr(runner, "dump_stacks", dump_stacks)
    script = logs / "slow.py"
    slow = PROGRAM.replace("ONCE", repr("/"))
    hangs = f"while not os.path.exists({str(verdict)!r}): time.sleep(0.01)"
    slow = slow.replace("time.sleep(1000)", hangs)
    begins = f"""    if test == "B.passes" and not os.path.exists({str(next_one)!r}):
        open({str(next_one)!r}, "w").close()
        time.sleep(1000)
    failed ="""
    script.write_text(slow.replace("    failed =", begins))
    results = runner.run_suite(Suite("slow", [sys.executable, str(script)]), "[1]", FAR)
    failed = ["A.crashes", "B.hangs"]
    assert [result.test for result in results if result.outcome == "failed"] == failed
    assert len(results) == 5


def test_failed_tests_run_again_alone(logs, short_limits, capsys):
    suite = program(logs)
    results = runner.run_suite(suite, "[1]", FAR)
    failed = [result for result in results if result.outcome == "failed"]
    flaky = suites.run_again([suite], failed, FAR)
    suites.write_logs(results, flaky)
    capsys.readouterr()
    assert suites.report(results, flaky, []) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "FLAKY A.fails_once  (log: build/logs/program.log)"
    assert said[1].startswith("FAILED A.crashes: ended the program with status -11  (log: ")
    assert said[2].startswith("FAILED B.hangs: took more than 1 s  (log: ")
    assert said[3:] == ["3 passed, 2 failed, 0 skipped"]
    told = json.loads((logs / "flaky.json").read_text())
    assert [(entry["test"], entry["said"][0]) for entry in told] == [
        ("A.fails_once", "it broke here")
    ]
    # Twice for each that fails again, each with a log of its own.
    assert len(list(logs.glob("program-again-*.log"))) == 2 + 1 + 2


FAILED = "echo '[ RUN      ] A.a'; echo '[  FAILED  ] A.a (1 ms)'"


@pytest.mark.parametrize(
    ("script", "between_s", "failed"),
    [
        ("exit 3", PATIENCE_S, ["program: ended with status 3"]),
        # What its test did is not the end of it, and may be put down to chance.
        (f"{FAILED}; exit 1", PATIENCE_S, ["A.a"]),
        (f"{FAILED}; kill -SEGV $$", PATIENCE_S, ["A.a", "program: ended with status -11"]),
        ("(setsid sleep 1000 >/dev/null 2>&1 &) ; exit 0", PATIENCE_S, []),
        ("sleep 1000", 1, ["program: no test began for 1 s"]),
    ],
)
def test_programs_without_a_test_to_blame(script, between_s, failed, logs, monkeypatch):
    monkeypatch.setattr(runner, "BETWEEN_S", between_s)
    suite = Suite("program", ["bash", "-c", script])
    results = runner.run_suite(suite, "[1]", FAR)
    assert [str(result) for result in results] == failed


@measures_again
def test_a_run_that_is_cut_names_what_was_running(logs):
    script = "echo '[ RUN      ] A.a'; sleep 1000"

    def check(limit_s):
        queue = [Suite(name, ["bash", "-c", script]) for name in ("one", "two", "three")]
        found = list(side_by_side.run_suites(queue, time.monotonic() + limit_s))
        said = sorted(str(result) for results in found for result in results)
        cut = "A.a: the whole run was cut here"
        assert said == [cut, cut, "three: was not run"]

    growing_limit(check, 2.0)  # two programs have to begin within it


def test_a_suite_that_nothing_ran_is_not_forgotten(logs, monkeypatch):
    monkeypatch.setattr(side_by_side, "run_suite", lambda suite, place, cut_at: sys.exit(1))
    found = list(side_by_side.run_suites([Suite("one", ["true"])], FAR))
    assert [str(result) for result in found[0]] == ["one: was not run"]


@pytest.mark.parametrize(
    ("running", "begins"),
    [((), "a"), (("a",), "b"), (("a", "b"), "w"), (("a", "b", "w"), None), (("a", "w"), "b")],
)
def test_two_suites_run_side_by_side_and_one_that_waits(running, begins):
    by_name = {name: Suite(name, ["true"], waits=name == "w") for name in "abcw"}
    waiting = [suite for name, suite in by_name.items() if name not in running]
    found = side_by_side.next_suite(waiting, [by_name[name] for name in running], False)
    assert (found and found.name) == begins


def test_limits_are_ten_times_the_usual_within_bounds(monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "USUAL", tmp_path / "usual.json")
    limits.usual_seconds.cache_clear()
    limits.record({"quick": 0.2, "middle": 7.04, "long": 60, "border": 3.0})
    limits.usual_seconds.cache_clear()
    assert json.loads((tmp_path / "usual.json").read_text()) == {"long": 60, "middle": 7.0}
    named = {name: limits.limit_s(name) for name in ("quick", "middle", "long", "unknown")}
    limits.usual_seconds.cache_clear()
    assert named == {"quick": 30, "middle": 70, "long": 180, "unknown": 30}


PYTEST = """
import atexit, os, threading, time
import pytest

@pytest.mark.parametrize("words", ["x y"])
def test_passes(words): pass

def test_fails():
    print("it printed this")
    assert 1 == 2, "it broke here"

def test_takes_pytest_down(): os._exit(3)

@pytest.mark.timeout(1)
def test_hangs(): time.sleep(1000)

@pytest.fixture
def broken(): raise RuntimeError("no ground to stand on")

def test_error(broken): pass

@pytest.mark.skip(reason="no network")
def test_skipped(): pass

@pytest.mark.xfail
def test_expected(): assert False

def test_leaves_a_thread_that_python_waits_for():
    threading.Thread(target=time.sleep, args=(1000,)).start()
    atexit.register(lambda: open("at_exit", "w").close())
"""


def test_tests_of_pytest_are_read_alike(logs, monkeypatch):
    folder = logs / "tests"
    folder.mkdir()
    (folder / "test_all.py").write_text(PYTEST)
    register = f"""
        import os, sys
        sys.path.insert(0, {str(runner.ROOT / "tools")!r})
        def pytest_configure(config):
            if "GATE_LISTED" in os.environ:
                from gate.events import Events
                config.pluginmanager.register(Events(config))
    """
    (folder / "conftest.py").write_text(textwrap.dedent(register))
    (logs / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.setattr(runner, "ROOT", logs)
    words = [sys.executable, "-m", "pytest", "-q", "--no-header", "--no-summary", "tests/"]
    results = runner.run_suite(Suite("python", words, pytest=True), "[1]", FAR)
    assert outcomes(results) == {
        "tests/test_all.py::test_passes[x y]": "passed",
        "tests/test_all.py::test_leaves_a_thread_that_python_waits_for": "passed",
        "tests/test_all.py::test_fails": "failed",
        "tests/test_all.py::test_takes_pytest_down": "failed",
        "tests/test_all.py::test_hangs": "failed",
        "tests/test_all.py::test_error": "failed",
        "tests/test_all.py::test_skipped": "skipped",
        "tests/test_all.py::test_expected": "passed",
    }
    said = {result.test.partition("::")[2]: "\n".join(result.said) for result in results}
    assert (logs / "at_exit").exists()
    assert "it broke here" in said["test_fails"]
    assert "it printed this" in said["test_fails"]
    assert "Timeout" in said["test_hangs"]
    assert "no ground to stand on" in said["test_error"]


@pytest.mark.parametrize(
    ("done", "total", "seconds", "said"),
    [
        (5, 100, 60, ""),
        (50, 100, 10, ""),
        (50, 100, 240, ", about 4 min left"),
        (99, 100, 240, ", less than a minute left"),
    ],
)
def test_builds_say_how_long_they_take(done, total, seconds, said):
    assert builds.time_left(done, total, seconds) == said

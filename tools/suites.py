"""Builds and runs the test suites of a prepared checkout; `tools/test` calls it.

Two suites run side by side, and a third where it mostly waits. A test that fails is run again at
the end, alone, twice at most. One that passes then is FLAKY: a fault to be found, of which
build/logs/flaky.json tells more, but no reason to stop.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict

from gate import builds, limits, selection
from gate.output import Result
from gate.processes import collect_orphans
from gate.progress import show
from gate.runner import LOGS, Suite, run_suite
from gate.side_by_side import run_suites

# Of a whole run, by what is run.
CUT_MINUTES = {"all": 60, "sanitize": 240, "lab": 60, "slow": 240}
AGAIN = 2
# More than these are not chance, and would take an hour.
MAX_AGAIN = 30
FLAKY = LOGS / "flaky.json"


def chosen(arguments: argparse.Namespace) -> tuple[list[Suite], str]:
    """What is to run, in this order, and what went wrong in building it, or ""."""
    only, kind = arguments.only, arguments.sanitize
    if arguments.lab:
        return selection.laboratory(only, arguments.slow), builds.build_tests()
    if kind:
        folder = f"build-{kind}"
        error = builds.build_sanitized(folder, kind)
        suites = selection.cpp_suites(folder, selection.programs(), only)
        return selection.sanitized(suites, kind), error
    error = builds.build_tests()
    suites = selection.cpp_suites("build", selection.programs(), only)
    return [*selection.python_suites(only, arguments.slow), *suites], error


def alone(suite: Suite, test: str, number: int, cut_at: float) -> Result:
    """Runs one test again; the worst of what it came to."""
    name = f"{suite.name}-again-{number}"
    results = run_suite(suite, "[again]", cut_at, [test], name)
    of_it = [result for result in results if result.outcome == "failed" or result.test == test]
    nothing = Result(suite.name, test, "failed", why="did not run")
    return next((r for r in of_it if r.outcome == "failed"), of_it[0] if of_it else nothing)


def run_again(suites: list[Suite], failed: list[Result], cut_at: float) -> list[Result]:
    """The tests of these that pass now; each try has a log of its own."""
    by_name = {suite.name: suite for suite in suites}
    flaky, number = [], 0
    for result in (result for result in failed if result.test):
        for _ in range(AGAIN):
            number += 1
            if time.monotonic() > cut_at:
                return flaky
            if alone(by_name[result.suite], result.test, number, cut_at).outcome != "failed":
                flaky.append(result)
                break
    return flaky


def report(results: list[Result], flaky: list[Result], errors: list[str]) -> int:
    """The closing lines, and the exit status."""
    told = {id(result) for result in flaky}
    failed = [r for r in results if r.outcome == "failed" and id(r) not in told]
    for result in flaky:
        print(f"FLAKY {result}  (log: build/logs/{result.suite}.log)")
    for result in failed:
        print(f"FAILED {result}  (log: build/logs/{result.suite}.log)")
    for error in errors:
        print(f"FAILED {error}")
    passed = sum(result.outcome == "passed" for result in results) + len(flaky)
    skipped = sum(result.outcome == "skipped" for result in results)
    print(f"{passed} passed, {len(failed) + len(errors)} failed, {skipped} skipped")
    return 1 if failed or errors else 0


def write_logs(results: list[Result], flaky: list[Result]) -> None:
    """What outlives the terminal: how long each test took, and what flaky ones said."""
    seconds = {result.test: round(result.seconds, 3) for result in results if result.test}
    (LOGS / "seconds.json").write_text(json.dumps(seconds, indent=1) + "\n")
    told = [asdict(result) | {"log": f"build/logs/{result.suite}.log"} for result in flaky]
    FLAKY.write_text(json.dumps(told, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/test", description=__doc__)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--sanitize", choices=builds.SANITIZERS, help="the C++ suites under it")
    kinds.add_argument("--lab", action="store_true", help="the emulated hosts with RDMA")
    parser.add_argument("--slow", action="store_true", help="with the tests that take minutes")
    parser.add_argument("--only", default="", metavar="PATTERN", help="tests or suites named so")
    parser.add_argument("--record", action="store_true", help="write tests/usual_seconds.json")
    arguments = parser.parse_args()
    collect_orphans()
    LOGS.mkdir(parents=True, exist_ok=True)
    if arguments.slow:
        os.environ["SLOW_TESTS"] = "1"
    began = time.monotonic()
    kind = next((kind for kind in ("sanitize", "lab", "slow") if getattr(arguments, kind)), "all")
    to_run, error = chosen(arguments)
    errors = [error] if error else []
    built = time.monotonic()
    cut_at = built + CUT_MINUTES[kind] * 60
    results: list[Result] = []
    for ended in run_suites([] if error else to_run, cut_at):
        results += ended
    failed = [result for result in results if result.outcome == "failed"]
    flaky = []
    if len(failed) > MAX_AGAIN:
        show(f"{len(failed)} tests have failed: more than chance explains; none is run again")
    elif failed:
        flaky = run_again(to_run, failed, cut_at)
    write_logs(results, flaky)
    if arguments.record:
        limits.record({r.test: r.seconds for r in results if r.test and r.outcome == "passed"})
    if not results and not errors:
        errors.append(f"no test is named like {arguments.only!r}")
    minutes = f"{(time.monotonic() - built) / 60:.0f}"
    print(f"\n{minutes} minutes of tests, after {(built - began) / 60:.0f} of building")
    return report(results, flaky, errors)


if __name__ == "__main__":
    sys.exit(main())

"""Which programs of tests there are, and which of them run when."""

import json
import subprocess
from dataclasses import replace

from gate.runner import ROOT, Suite

# Tests that wait, for a delay that they planted or for a host that has gone dark, and hardly
# compute: they are suites of their own, which run beside the others.
WAITING = {
    "collective_tests": ("Lateness", "DarkHosts", "DataPath", "ARankThatHasLeftIsNamed"),
    "rendezvous_tests": ("FailuresOnAllRanksAtOnce",),
}
# Suites of Python's tests by their folders; whatever none of them names is in `python`. The
# commands are tried with links and ranks that are slow on purpose, and wait half of their time.
PARTS = {
    "python-torch": ("backend", "training"),
    "python-device": ("device",),
    "python-commands": ("commands", "doctor", "live"),
}
WAITING_PARTS = ("python-commands", "python-on-device")
# Tests of the backend that are run on a device, too (tests/ghost).
ON_DEVICE = ("coalesced", "collectives", "overlaps", "training")
# They start no thread, or only those of groups that other suites run in more ways: the thread
# sanitizer could find nothing more in them.
WITHOUT_THREADS = (
    "schedule_tests",
    "cost_tests",
    "checker_tests",
    "fuzz_tests",
    "number_tests",
    "reduce_tests",
    "simulate_tests",
    "tool_tests",
    "top_tests",
    "trace_tests",
    "tune_tests",
)
# Not detect_stack_use_after_return: GCC 12's fake stack misaligns 64-byte vectors.
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "strict_string_checks=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


def programs() -> list[str]:
    """The names of the C++ suites."""
    command = [".venv/bin/meson", "introspect", "build", "--tests"]
    told = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    return sorted({test["name"] for test in json.loads(told)})


def gtest_filter(wanted: str, without: tuple[str, ...]) -> list[str]:
    negative = ":".join(f"*{name}*" for name in without)
    if not (wanted or negative):
        return []
    return [f"--gtest_filter=*{wanted}*".replace("**", "*") + (f"-{negative}" if negative else "")]


def cpp_suites(folder: str, names: list[str], only: str) -> list[Suite]:
    suites = []
    for name in names:
        program = str(ROOT / folder / "tests" / name)
        wanted, waiting = "" if only in name else only, WAITING.get(name, ())
        suites.append(Suite(name, [program, *gtest_filter(wanted, waiting)]))
        for group in waiting:
            command = [program, *gtest_filter(f"{group}*{wanted}", ())]
            suites.append(Suite(f"{name}-{group}", command, waits=True))
    return suites


def sanitized(suites: list[Suite], kind: str) -> list[Suite]:
    wrapper = []
    if kind == "thread":
        suites = [suite for suite in suites if not suite.name.startswith(WITHOUT_THREADS)]
        # Old kernels place memory where the sanitizer's shadow is; a container may forbid this.
        wrapper = ["setarch", "-R"]
        if subprocess.run([*wrapper, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            wrapper = []
    return [
        replace(
            suite,
            name=f"{suite.name}-{kind}",
            command=[*wrapper, *suite.command],
            environment=SANITIZER_OPTIONS,
            limit_factor=4,
        )
        for suite in suites
    ]


def pytest_suite(name: str, marks: str, only: str, where: list[str]) -> Suite:
    command = [".venv/bin/python", "-m", "pytest", "-q", "--no-header", "--no-summary"]
    command += ["--color=no", "-p", "no:cacheprovider", "-m", marks]
    command += ["-k", " and ".join(filter(None, only.split("*")))] if only else []
    return Suite(name, [*command, *where], pytest=True, waits=name in WAITING_PARTS)


def laboratory(only: str, slow: bool) -> list[Suite]:
    marks = "lab" if slow else "lab and not slow"
    return [pytest_suite("lab", marks, only, ["tests/python"])]


def python_suites(only: str, slow: bool) -> list[Suite]:
    marks = "not lab" if slow else "not slow and not lab"
    suites, others = [], ["tests/python"]
    for name, folders in PARTS.items():
        where = [f"tests/python/{folder}" for folder in folders]
        suites.append(pytest_suite(name, marks, only, where))
        others += [f"--ignore={folder}" for folder in where]
    where = [f"tests/python/backend/test_backend_{part}.py" for part in ON_DEVICE]
    on_device = pytest_suite("python-on-device", marks, only, where)
    suites.append(replace(on_device, environment={"DEVICE": "ghost"}))
    return [*suites, pytest_suite("python", marks, only, others)]

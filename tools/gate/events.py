"""A plugin of pytest: tells each test's begin and end in GoogleTest's lines, for `output.py`.

tests/python/conftest.py registers it where GATE_LISTED is set: a file to write the names of the
tests to, before the first of them runs. GATE_TESTS names a file with those to run, if not all.

A test that gives itself a timeout tells it; every other one has the limit of `limits.py`. What a
test that failed has said stands before its end.
"""

import atexit
import os
import sys
import time
from pathlib import Path

import pytest
from gate import limits


def say(config, text: str) -> None:
    config.pluginmanager.get_plugin("terminalreporter").write_line(text)


class Events:
    def __init__(self, config) -> None:
        self.config = config
        self.began = 0.0
        self.outcome = "OK"
        self.status = 0
        # A pytest that a test starts is not to hear of them.
        self.listed = Path(os.environ.pop("GATE_LISTED"))
        self.wanted = os.environ.pop("GATE_TESTS", "")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items) -> None:
        if self.wanted:
            names = set(Path(self.wanted).read_text().splitlines())
            items[:] = [item for item in items if item.nodeid in names]
        self.listed.write_text("".join(f"{item.nodeid}\n" for item in items))
        for item in items:
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(limits.limit_s(item.nodeid)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item) -> None:
        self.began, self.outcome = time.monotonic(), "OK"
        say(self.config, f"[ RUN      ] {item.nodeid}")
        if timeout := item.get_closest_marker("timeout"):
            say(self.config, f"[ LIMIT    ] {timeout.args[0]:.0f} s")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report) -> None:
        if report.failed:
            self.outcome = "FAILED"
            for title, text in [(report.when, report.longreprtext), *report.sections]:
                say(self.config, f"--- {title}\n{text}")
        elif report.skipped and not hasattr(report, "wasxfail") and self.outcome == "OK":
            self.outcome = "SKIPPED"
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            say(self.config, f"skipped: {reason}")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid) -> None:
        took_ms = (time.monotonic() - self.began) * 1000
        end = {"OK": "[       OK ]", "FAILED": "[  FAILED  ]", "SKIPPED": "[  SKIPPED ]"}
        say(self.config, f"{end[self.outcome]} {nodeid} ({took_ms:.0f} ms)")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, exitstatus) -> None:
        self.status = int(exitstatus)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Ends here. To free all of torch, which ranks are forked with, took over a minute on a
        machine with other work, after the last test; and no rank ends in this process."""
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(self.status)

    def pytest_report_teststatus(self, report):
        """No letter and no word: the lines above say it."""
        return report.outcome, "", ""

"""How late this machine wakes a sleeping thread: what tests of time itself are measured by.

A test asks for an order of events and not for a time, as far as it can. Where a time is what it
tests, it multiplies its bound by what the machine did beside that very interval:

    with wakeups() as machine:
        took = ...
    assert took < 2 * machine.late

Where the product has to be given a short limit, `growing_limit` gives it a longer one as long as
the machine was late beside the failure. Where what is measured is a rate, `first_right` measures
again.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

SLEEP_S = 0.01
# A machine with a core to spare wakes a thread within a tenth of these 10 ms, but now and then.
PUNCTUAL = 1.5
BUSY = 0.05
LONGEST_LIMIT_S = 64
# In which a measurement is begun again.
TRIES_S = 20
# For tests that may do so: their usual time says nothing about their longest.
measures_again = pytest.mark.timeout(180)


@dataclass
class Machine:
    """`late`: the worst of all sleeps, as it took by as it should have taken; at least 1. `busy`:
    the share of the sleeps that were late by half and more."""

    late: float = 1.0
    sleeps: int = 0
    unpunctual: int = 0

    @property
    def busy(self) -> float:
        return self.unpunctual / max(self.sleeps, 1)

    def slept(self, took_s: float) -> None:
        ratio = took_s / SLEEP_S
        self.late = max(self.late, ratio)
        self.sleeps += 1
        self.unpunctual += ratio > PUNCTUAL


@contextlib.contextmanager
def wakeups() -> Iterator[Machine]:
    """A thread sleeps for 10 ms again and again, for as long as the block lasts; the block must
    leave it Python's lock, as all does that waits. What it says is complete after the block."""
    machine, over = Machine(), threading.Event()

    def sleep_again_and_again() -> None:
        while not over.is_set():
            began = time.monotonic()
            time.sleep(SLEEP_S)
            machine.slept(time.monotonic() - began)

    sleeper = threading.Thread(target=sleep_again_and_again)
    sleeper.start()
    try:
        yield machine
    finally:
        over.set()
        sleeper.join()


def growing_limit(check: Callable[[float], object], limit_s: float = 1.0) -> None:
    """`check` gives the product this limit, which something has to keep that nobody tests: ranks
    that come together. It is called again with four times the limit where it failed beside a
    machine that was late; a fault fails it with every limit, and on a punctual machine at once."""
    while True:
        with wakeups() as machine:
            try:
                check(limit_s)
                return
            except Exception as error:  # `pytest.fail` and asserts of ranks are exceptions too
                failure = error
        limit_s *= 4
        if machine.late < PUNCTUAL or limit_s > LONGEST_LIMIT_S:
            raise failure


def first_right(
    measure: Callable[[], tuple], right: Callable[..., bool], tries_s: float = TRIES_S
) -> tuple:
    """The first measurement that is right, or the last: other work of the machine spoils any of
    them, a fault spoils all. Where the machine was busy all the time, nothing can be told."""
    deadline = time.monotonic() + tries_s
    with wakeups() as machine:
        while not right(*(result := measure())) and time.monotonic() < deadline:
            continue
    if not right(*result) and machine.busy > BUSY:
        pytest.skip(f"measured beside other work: {machine.busy:.0%} of all sleeps ended late")
    return result

"""What bench/peers and bench/ddp share: contestants run in rounds, and the machine around them."""

import os
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

SECONDS_PER_RUN = 120


def built(folder: Path, program: str) -> Path:
    """A program of bench/ in this build folder, made anew where its sources have changed."""
    ninja = Path(__file__).resolve().parents[1] / ".venv" / "bin" / "ninja"
    command = [ninja if ninja.exists() else "ninja", "-C", folder, Path("bench") / program]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{program} cannot be built in {folder}:\n{done.stdout}{done.stderr}")
    return folder / "bench" / program


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(command: list[str]) -> str:
    """What the command prints; RuntimeError if it fails or does not end."""
    # A group and not a session of its own: a session would lose the caller's scheduling weight.
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )
    try:
        output, errors = process.communicate(timeout=SECONDS_PER_RUN)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        raise RuntimeError(f"{' '.join(command)}: no end after {SECONDS_PER_RUN} s") from error
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}\n{errors[-800:]}")
    return output


def numbered_rounds(rounds: int, seconds: float):
    """0, 1, ... for as long as the next round ends within `seconds`, if it takes as long as those
    before it. The first one always takes place."""
    begin = time.monotonic()
    for number in range(rounds):
        spent = time.monotonic() - begin
        if number and spent * (number + 1) / number > seconds:
            say(f"stopped after {number} rounds: another would end after {seconds:.0f} s")
            return
        yield number


def foreign_load(seconds: float = 0.5) -> float:
    """The share of all cores that others use while we do nothing."""

    def ticks() -> tuple[int, int]:
        fields = [int(f) for f in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        return sum(fields), fields[3] + fields[4]

    before = ticks()
    time.sleep(seconds)
    after = ticks()
    return 1 - (after[1] - before[1]) / max(1, after[0] - before[0])


class Surroundings:
    """The machine around a measurement, from its making on."""

    def __init__(self) -> None:
        self.start, self.load_before, self.foreign = time.time(), os.getloadavg()[0], []

    def before_round(self) -> float:
        """Keeps the share of the cores that others use now, and returns it."""
        self.foreign.append(foreign_load())
        return self.foreign[-1]

    def machine(self, versions: dict[str, str]) -> dict:
        return {
            **processor(),
            "versions": versions,
            "load_average": {"before": self.load_before, "after": os.getloadavg()[0]},
            "foreign_load": {"mean": statistics.fmean(self.foreign), "most": max(self.foreign)},
        }

    def settings(self, rounds: int, **more: object) -> dict:
        return {
            "date": time.strftime("%Y-%m-%d", time.gmtime(self.start)),
            "rounds": rounds,
            "seconds": round(time.time() - self.start),
            **more,
        }


def first_match(command: list[str], pattern: str) -> str:
    """The pattern's first group in what the command prints; "" without either."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return ""
    found = re.search(pattern, done.stdout)
    return found[1] if found else ""


def processor() -> dict:
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {
        "processor": model[1] if model else os.uname().machine,
        "cores": len(os.sched_getaffinity(0)),
        "kernel": os.uname().release,
    }


def machine_line(machine: dict, settings: dict) -> str:
    """The machine, its load, the versions and the rounds, in words."""
    versions = ", ".join(f"{k} {v}" for k, v in machine["versions"].items() if v)
    load, foreign = machine["load_average"], machine["foreign_load"]
    return (
        f"{machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}; "
        f"{versions + '; ' if versions else ''}"
        f"{settings['date']}, {settings['rounds']} interleaved rounds in {settings['seconds']} s. "
        f"Load average {load['before']:.1f} before, {load['after']:.1f} after; cores used by "
        f"others between rounds: {foreign['mean']:.0%} on average, {foreign['most']:.0%} at most."
    )

"""Runs `python SCRIPT ARGUMENTS` in a fork of this process, which has imported torch already.

The script has its own __main__, arguments, environment, output and session, and one thread to
compute with. What differs from a process that was started: it ends without the interpreter's own
end, but for what atexit knows, and inherits the files that are open here.
"""

import atexit
import faulthandler
import os
import runpy
import select
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path


class ForkedScript:
    """What subprocess.Popen is for a started process, as far as tests use it."""

    def __init__(self, argv: Sequence[str], environment: dict[str, str], output: int) -> None:
        import_what_ranks_need()
        sys.stdout.flush()
        sys.stderr.flush()
        self.args, self.returncode = argv, None
        self.pid = os.fork()
        if self.pid == 0:
            run_script(argv, environment, output)
        self._ended = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        if self.returncode is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.returncode = os.waitstatus_to_exitcode(status)
                os.close(self._ended)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.poll() is None:
            if not select.select([self._ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.poll()
        return self.returncode


def import_what_ranks_need() -> None:
    """Once. The first step of an optimizer imports torch._dynamo, which takes seconds."""
    import torch._dynamo
    import torch.distributed.fsdp  # noqa: F401


def run_script(argv: Sequence[str], environment: dict[str, str], output: int) -> None:
    """In the child; does not return."""
    import torch

    status = 1
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout = os.fdopen(1, "w", buffering=1)
        sys.stderr = os.fdopen(2, "w", buffering=1)
        faulthandler.enable()
        os.environ.clear()
        os.environ.update(environment)
        torch.set_num_threads(1)
        sys.argv = list(argv)
        sys.path.insert(0, str(Path(argv[0]).parent))
        # Kept until the end: gloo's group, freed beside its threads, may wait for ever.
        _kept = runpy.run_path(argv[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        status = exit_status(end.code)
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def exit_status(code: object) -> int:
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    print(code, file=sys.stderr)
    return 1

"""The package `ringwood` as its users see it: version, types, metadata, `python -m ringwood`."""

import ast
import importlib.metadata
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from processes import ROOT
from ringwood_command import environment

PACKAGE = ROOT / "torch-bridge" / "ringwood"
# The extension module for this torch, and the stub of all of them.
EXTENSION = "ringwood._C_" + "_".join(importlib.metadata.version("torch").split(".")[:2])
STUB = PACKAGE / "_C.pyi"
MAIN = [sys.executable, "-m", "ringwood"]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def done(*words, **keywords) -> subprocess.CompletedProcess:
    given = {"env": environment(), "cwd": ROOT / "tests", **keywords}
    return subprocess.run([*map(str, words)], capture_output=True, text=True, **given)


def python(script: str, *flags: str) -> str:
    ran = done(sys.executable, *flags, "-c", script)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


# ---- version and metadata -----------------------------------------------------------------------


def test_version_is_that_of_the_build():
    (version,) = re.findall(r"^  version: '(.*)',$", (ROOT / "meson.build").read_text(), re.M)
    assert python("import ringwood; print(ringwood.__version__)") == version
    assert importlib.metadata.version("ringwood") == version


def test_metadata_says_what_a_user_looks_for():
    told = importlib.metadata.metadata("ringwood")
    assert told["Author"] == "Ringwood contributors"
    assert told["License-Expression"] == "Apache-2.0"
    assert {"PyTorch", "all-reduce"} <= {word.strip() for word in told["Keywords"].split(",")}
    assert "Typing :: Typed" in told.get_all("Classifier")


def test_the_classifiers_name_every_python_from_the_oldest_on():
    oldest = int(PYPROJECT["project"]["requires-python"].removeprefix(">=3."))
    named = re.findall(r"Python :: 3\.(\d+)", "\n".join(PYPROJECT["project"]["classifiers"]))
    assert [int(minor) for minor in named] == list(range(oldest, oldest + len(named)))


def test_the_extra_of_the_examples_is_what_they_import():
    names = {"sklearn": "scikit-learn"}
    imported: set[str] = set()
    for file in (ROOT / "torch-bridge" / "examples").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add(node.module.partition(".")[0])
    ours = {file.stem for file in (ROOT / "torch-bridge" / "examples").glob("*.py")}
    foreign = imported - ours - set(sys.stdlib_module_names) - {"torch", "ringwood"}
    extra = PYPROJECT["project"]["optional-dependencies"]["examples"]
    assert {names.get(name, name) for name in foreign} == set(extra)


# ---- types --------------------------------------------------------------------------------------

USER = """
import ringwood
import torch

tensor = ringwood.empty(2, 3, dtype=torch.int32)
same: torch.Tensor = ringwood.empty((2, 3))
with ringwood.high_priority():
    torch.distributed.all_reduce(tensor)
ringwood.share_large_tensors(1 << 20)
file: str = ringwood.dump_flight_recorder("prefix")
version: str = ringwood.__version__
"""
WRONG = """
import ringwood

number: int = ringwood.empty(2)
ringwood.share_large_tensors("1M")
ringwood.monitored_barrier(timeout=3)
"""


def mypy(*words) -> subprocess.CompletedProcess:
    pytest.importorskip("mypy")
    flags = ["--config-file", ROOT / "pyproject.toml", "--no-error-summary"]
    cache = ["--cache-dir", ROOT / "build" / "mypy-of-installed"]
    return done(sys.executable, "-m", "mypy", *flags, *cache, *words)


@pytest.mark.timeout(600)
def test_types_of_the_package_and_of_those_who_use_it(tmp_path):
    """mypy --strict of what is installed; torch's own types take most of the time, once."""
    (tmp_path / "user.py").write_text(USER)
    (tmp_path / "wrong.py").write_text(WRONG)
    package = mypy("-p", "ringwood")
    assert (package.returncode, package.stdout) == (0, ""), package.stdout + package.stderr
    user = mypy(tmp_path / "user.py")
    assert (user.returncode, user.stdout) == (0, ""), user.stdout + user.stderr
    wrong = mypy(tmp_path / "wrong.py").stdout
    assert re.findall(r"wrong\.py:(\d+): error", wrong) == ["4", "5", "6"], wrong


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_stub_has_what_the_module_has():
    pytest.importorskip("mypy")
    config = ["--mypy-config-file", ROOT / "pyproject.toml"]
    told = done(sys.executable, "-m", "mypy.stubtest", *config, EXTENSION)
    assert told.returncode == 0, told.stdout + told.stderr


def test_the_stub_names_the_arguments_of_the_module():
    """pybind11 tells them in words only, which stubtest does not read."""
    stub = {
        node.name: [argument.arg for argument in node.args.args]
        for node in ast.parse(STUB.read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    words = python(
        "import torch, importlib, json\n"
        f"module = importlib.import_module({EXTENSION!r})\n"
        "print(json.dumps({n: f.__doc__ for n, f in vars(module).items() if callable(f)}))"
    )
    module = ast.literal_eval(words)
    assert module.keys() == stub.keys()
    for name, told in module.items():
        signature = told.splitlines()[0]
        assert re.findall(r"[(,] ?(\w+): ", signature) == stub[name], signature


# ---- python -m ringwood -------------------------------------------------------------------------

NO_TORCH = """
import importlib.abc, runpy, sys
class NoTorch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, NoTorch())
sys.orig_argv = [sys.executable, "-m", "ringwood", "--version"]
sys.argv = ["-m", "--version"]
runpy._run_module_as_main("ringwood")
"""


def installed() -> Path:
    """The command that stands beside this Python."""
    return Path(sys.executable).parent / "ringwood"


@pytest.mark.parametrize("words", [["--version"], ["algorithms"], ["perf", "--nonesuch"], []])
def test_the_module_is_the_command(words):
    as_module, as_command = done(*MAIN, *words), done(installed(), *words)
    assert as_module.returncode == as_command.returncode
    assert (as_module.stdout, as_module.stderr) == (as_command.stdout, as_command.stderr)


def test_the_module_needs_no_torch():
    told = done(sys.executable, "-c", NO_TORCH)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == done(installed(), "--version").stdout
    assert "import 'torch" not in done(sys.executable, "-v", *MAIN[1:], "--version").stderr


def test_what_needs_torch_says_so():
    script = NO_TORCH.partition("sys.orig_argv")[0]
    for call in ("empty(3)", "share_large_tensors()", "dump_flight_recorder('x')"):
        told = done(sys.executable, "-c", f"{script}\nimport ringwood\nringwood.{call}")
        last = told.stderr.splitlines()[-1]
        assert last.startswith("ModuleNotFoundError: ringwood needs torch for this"), told.stderr
        assert "could not be registered" not in told.stderr


def test_what_names_another_module_registers_the_backend():
    told = done(sys.executable, "-m", "torch.distributed.run", "--help")
    assert told.returncode == 0, told.stderr
    script = "import torch.distributed as dist; print('ringwood' in dist.Backend.backend_list)"
    assert python(f"import ringwood; {script}") == "True"


def test_signals_reach_the_command():
    """It takes the place of Python: no process stands between, none is ignored that was not."""
    words = ["perf", "all_reduce", "--ranks", "1", "-e", "8", "-n", "100000000"]
    ignored, ends = [], []
    for start in (MAIN, [installed()]):
        with subprocess.Popen(
            [*start, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()
        ) as started:
            status = Path(f"/proc/{started.pid}/status")
            while "\nName:\tringwood\n" not in "\n" + status.read_text():
                assert started.poll() is None
                os.sched_yield()
            ignored.append(re.search(r"^SigIgn:\s*(\w+)", status.read_text(), re.M)[1])
            started.send_signal(signal.SIGTERM)
            started.communicate()
            ends.append(started.returncode)
    assert ignored[0] == ignored[1]
    # By the signal, or, once it has ranks to end first, with the code that shells give it.
    assert all(end in (-signal.SIGTERM, 128 + signal.SIGTERM) for end in ends), ends


def test_a_package_without_the_command_says_so(tmp_path):
    copy = tmp_path / "ringwood"
    copy.mkdir()
    for file in ("__init__.py", "__main__.py", "_autoload.py"):
        (copy / file).write_text((PACKAGE / file).read_text())
    # Without site-packages; the copy is all there is.
    told = done(sys.executable, "-S", "-m", "ringwood", cwd=tmp_path)
    assert told.returncode == 1
    assert told.stderr.startswith("the program `ringwood` is not in this installation")

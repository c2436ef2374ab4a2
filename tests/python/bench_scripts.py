"""The programs of bench/ and their modules, for the tests of both."""

import importlib.machinery
import importlib.util
import sys
import types

from processes import ROOT

BENCH = ROOT / "bench"


def script(name: str) -> types.ModuleType:
    """A program of bench/, which has no ending, as a module."""
    loader = importlib.machinery.SourceFileLoader(f"bench_{name}", str(BENCH / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.modules[loader.name] = module  # dataclasses and named tuples look themselves up there
    loader.exec_module(module)
    return module

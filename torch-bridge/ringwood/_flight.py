"""Ringwood's calls in what torch tells of its flight recorder.

torch keeps its recorder to itself: only backends in its own library can write to it. So its two
functions that dump it get ours, too (torch-bridge/flight_recorder.h).
"""

from __future__ import annotations

import functools
import json
import pickle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

    Dump = dict[str, Any]


def number_behind(ours: Dump, theirs: Dump) -> None:
    """torch and we count groups from 0: ours get the numbers that follow torch's."""
    taken = {int(number) for number in theirs.get("pg_status", {})}
    taken |= {int(entry["pg_id"]) for entry in theirs.get("entries", [])}
    first = max(taken, default=-1) + 1
    status = ours["pg_status"].items()
    ours["pg_status"] = {str(int(number) + first): state for number, state in status}
    for entry in ours.get("entries", []):
        entry["pg_id"] += first


def join_torch(module: ModuleType) -> None:
    """Once: wraps torch's functions, where this torch has them."""
    from torch._C import _distributed_c10d

    c10d: Any = _distributed_c10d  # the stubs of torch have none of these

    theirs = getattr(c10d, "_dump_fr_trace", None)
    if theirs is None or hasattr(theirs, "__wrapped__"):
        return

    def joined(calls: bool, only_active: bool, dump: Dump) -> Dump:
        ours = pickle.loads(module.dump_fr_trace(calls, only_active))
        number_behind(ours, dump)
        if calls:
            entries = [*dump.get("entries", []), *ours["entries"]]
            dump["entries"] = sorted(entries, key=lambda entry: entry["time_created_ns"])
        if not dump.get("pg_config"):  # torch has recorded nothing
            dump["comm_lib_version"] = ours["comm_lib_version"]
        for key in ("pg_config", "pg_status"):
            dump[key] = {**ours[key], **dump.get(key, {})}
        return dump

    @functools.wraps(theirs)
    def dump_fr_trace(
        includeCollectives: bool = True,  # noqa: N803
        includeStackTraces: bool | None = None,  # noqa: N803
        onlyActive: bool | None = None,  # noqa: N803
    ) -> bytes:
        dump = pickle.loads(theirs(includeCollectives, includeStackTraces, onlyActive))
        return pickle.dumps(joined(includeCollectives, bool(onlyActive), dump))

    c10d._dump_fr_trace = dump_fr_trace
    theirs_json = c10d._dump_fr_trace_json

    @functools.wraps(theirs_json)
    def dump_fr_trace_json(
        includeCollectives: bool = True,  # noqa: N803
        onlyActive: bool | None = None,  # noqa: N803
    ) -> bytes:
        dump = json.loads(theirs_json(includeCollectives, onlyActive))
        return json.dumps(joined(includeCollectives, bool(onlyActive), dump)).encode()

    c10d._dump_fr_trace_json = dump_fr_trace_json

"""What every ladder has to fulfil: the lowest rung's time and all losses are the highest one's."""

import re

import pytest

RUNGS = ["port", "raw socket", "raw verbs", "link", "collective", "torch"]


def printed_parts(table: str) -> list[list[float]]:
    """Below "# loss", by size: what each rung has, and the whole."""
    block = re.search(r"^# loss .*\n((?:  .*\n)+)", table, re.MULTILINE)
    assert block, table
    # Names have single spaces in them, columns more between them.
    lines = [re.split(r"\s{2,}", line.strip())[1:] for line in block[1].splitlines()]
    assert block[1].splitlines()[-1].startswith("  whole ")
    return [[float(cell) for cell in column if cell != "-"] for column in zip(*lines, strict=True)]


def assert_losses_add_up(found: dict, table: str) -> None:
    """In the JSON `found`, and in what was printed beside it."""
    times = {rung["rung"]: rung["time_us"] for rung in found["rungs"] if not rung["beside"]}
    measured = [
        [name for name in RUNGS if times.get(name, [None] * (size + 1))[size] is not None]
        for size in range(len(found["sizes"]))
    ]
    assert [one["bytes"] for one in found["losses"]] == [
        bytes_ for bytes_, names in zip(found["sizes"], measured, strict=True) if names
    ]
    printed = printed_parts(table)
    assert len(printed) == len(found["losses"])
    for one, parts in zip(found["losses"], printed, strict=True):
        size = found["sizes"].index(one["bytes"])
        names = measured[size]
        # A port far below the next rung is left out.
        if one["base"] != names[0]:
            assert (names[0], one["base"]) == ("port", names[1])
            assert times["port"][size] < 0.1 * times[names[1]][size]
            del names[0]
        assert [one["base"], *(loss["to"] for loss in one["losses"])] == names
        assert [*(loss["from"] for loss in one["losses"]), one["whole"]] == names
        assert one["base_us"] == pytest.approx(times[names[0]][size])
        assert one["whole_us"] == pytest.approx(times[names[-1]][size])
        sum_us = one["base_us"] + sum(loss["us"] for loss in one["losses"])
        assert sum_us == pytest.approx(one["whole_us"])
        for loss in one["losses"]:
            factor = times[loss["to"]][size] / times[loss["from"]][size]
            assert loss["factor"] == pytest.approx(factor)
        assert len(parts) == len(names) + 1
        assert sum(parts[:-1]) == pytest.approx(parts[-1], rel=0.05), table
        assert parts[-1] == pytest.approx(one["whole_us"], rel=0.05)

"""Runs `ringwood doctor` on the trees of doctor_trees, for its tests."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from doctor_trees import EMPTY_GID
from ringwood_command import run

PORT = "sys/class/infiniband/mlx5_1/ports/1"


@dataclass
class Found:
    code: int
    said: dict
    text: str

    @property
    def ids(self) -> set[str]:
        return {one["id"] for one in self.said["findings"]}

    @property
    def hosts(self) -> set[str]:
        return {one["host"] for one in self.said["findings"]}

    def missed(self) -> dict[str, str]:
        return {one["what"]: one["reason"] for one in self.said["not_checked"]}


def doctor(*words: object) -> Found:
    done = run("doctor", *map(str, words), "--json")
    assert done.returncode in (0, 1, 2, 3) and done.stdout, done.stderr
    return Found(done.returncode, json.loads(done.stdout), done.stderr)


def snapshot(tree, name: str = "a") -> Path:
    file = tree.root.parent / f"{tree.root.name}-{name}.json"
    done = run("doctor", "--root", str(tree.root), "--snapshot", str(file))
    assert file.exists(), done.stderr
    return file


def change(file: Path, path: list, value: object) -> None:
    document = json.loads(file.read_text())
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    file.write_text(json.dumps(document))


def missed_rules(found: Found, what: str) -> set[str]:
    """The rules that are said to miss it."""
    return {
        rule for one in found.said["not_checked"] if one["what"] == what for rule in one["rules"]
    }


def raise_statistic(tree, counter: str, amount: int) -> None:
    file = "sos_commands/networking/ethtool_-S_rail1"
    text = (tree.root / file).read_text()
    old = int(re.search(rf" {counter}: (\d+)", text)[1])
    tree.replace(file, f" {counter}: {old}\n", f" {counter}: {old + amount}\n")


def raise_counter(tree, name: str, amount: int, port: str = PORT) -> None:
    file = tree.root / port / name
    tree.write(f"{port}/{name}", int(file.read_text()) + amount)


def two_samples(tree, after) -> list[Path]:
    before = snapshot(tree, "before")
    tree.write("proc/uptime", "1010.00 9000.00")
    after(tree)
    # In any order: they tell when they were taken.
    return [snapshot(tree, "after"), before]


def empty_gids(tree, first: int = 0) -> None:
    for index in range(first, 4):
        tree.write(f"{PORT}/gids/{index}", EMPTY_GID)


def moved_gids(tree) -> None:
    """An address was taken away and given again: its rows are others now."""
    for index in (2, 3):
        for kind in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
            text = (tree.root / PORT / kind / str(index)).read_text().strip()
            tree.write(f"{PORT}/{kind}/{index + 2}", text)
        tree.write(f"{PORT}/gids/{index}", EMPTY_GID)


def all_cards_at_the_other_node(tree) -> None:
    tree.write("sys/bus/pci/devices/0000:17:00.0/numa_node", 1)
    tree.replace("proc/self/status", "Cpus_allowed_list:\t0-7", "Cpus_allowed_list:\t0-3")


def no_rdma(tree) -> None:
    for folder in ("infiniband", "infiniband_verbs"):
        shutil.rmtree(tree.root / "sys/class" / folder)
    for pci in ("0000:17:00.0", "0000:86:00.0"):
        tree.remove(f"sys/bus/pci/devices/{pci}")


def no_second_card(tree) -> None:
    shutil.rmtree(tree.root / "sys/class/infiniband/mlx5_1")
    tree.remove("sys/bus/pci/devices/0000:86:00.0")


def port_down(tree) -> None:
    tree.write_all(PORT, {"state": "1: DOWN", "phys_state": "3: Disabled"})
    tree.write("sys/class/net/rail1/carrier", 0)


def with_environment(**variables: str):
    return lambda tree: tree.environment(**{"RINGWOOD_VERBS_TRAFFIC_CLASS": "106"} | variables)


def replacing(path: str, old: str, new: str):
    return lambda tree: tree.replace(path, old, new)


def writing(path: str, text: object):
    return lambda tree: tree.write(path, text)


def printing(command: str, text: str):
    return lambda tree: tree.printed(command, text)


def memlock(tree) -> None:
    limit = "Max locked memory         {}"
    tree.replace("proc/self/limits", limit.format("unlimited"), limit.format("8388608  "))

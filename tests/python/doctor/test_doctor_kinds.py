"""`ringwood doctor` on bonds and in virtual machines, and on snapshots that anybody made."""

import copy
import json
import random

import pytest
from doctor_gpus import add_gpus
from doctor_hosts import lag, virtual_machine
from doctor_runs import (
    doctor,
    missed_rules,
    printing,
    raise_statistic,
    snapshot,
    two_samples,
    with_environment,
    writing,
)
from doctor_trees import healthy, qos
from ringwood_command import run

MEMBERS = {
    "bond-queue-pairs": with_environment(),
    "pfc-other-priority": printing("mlnx_qos -i rail1", qos(pfc="0   0   0   0   1   0   0   0")),
    "global-pause": printing("ethtool -a rail1", "Pause parameters for rail1:\nRX:\ton\nTX:\toff"),
    "link-flapping": writing("sys/class/net/rail1/carrier_changes", 400),
}


@pytest.mark.parametrize("rule", MEMBERS)
def test_members_of_a_bond_are_looked_at(rule, tmp_path):
    tree = lag(healthy(tmp_path))
    found = doctor("--root", tree.root)
    assert (found.code, found.ids) == (0, set()), found.text
    assert [rail["interface"] for rail in found.said["hosts"][0]["rails"]] == ["bond0"]
    assert not any("bond0" in what for what in found.missed()), found.text
    MEMBERS[rule](tree)
    found = doctor("--root", tree.root)
    assert found.ids == {rule}, found.text


def test_a_hash_of_addresses_is_noted(tmp_path):
    found = doctor("--root", lag(healthy(tmp_path), "layer2 0").root)
    assert (found.code, found.ids) == (0, {"bond-queue-pairs"}), found.text


def test_a_member_that_carries_all(tmp_path):
    tree = lag(healthy(tmp_path))
    samples = two_samples(tree, lambda t: raise_statistic(t, "tx_prio3_bytes", 10**9))
    found = doctor("--from", *samples)
    assert found.ids == {"bond-uneven"}, found.text
    assert "rail0 sent 0, rail1 sent 1000000000 bytes in 10 s" in found.text


def test_a_virtual_machine_without_rdma(tmp_path):
    found = doctor("--root", virtual_machine(healthy(tmp_path)).root)
    assert (found.code, found.ids) == (0, set()), found.text
    assert "no RDMA device" in found.missed()["rdma"]
    assert "pcie-link" in missed_rules(found, "pci-link of 0000:00:05.0")


def places_of(value: object, path: tuple = ()) -> list[tuple]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, one in inner:
        found.append((*path, key))
        if isinstance(one, dict | list):
            found += places_of(one, (*path, key))
    return found


# What a peer, or the writer of a file, may put in any place.
WRONG = (
    *(None, True, -1, 0, 2**63, -(2**63), 1e308, 0.5, "", "a" * 70000, "\x1b[31m\n$(id)"),
    *([], {}, [[]], [None], {"a": 1}, "0000:00:00.0", ["eth0"], [0, 1, 2**31], {"eth0": -1}),
)


def spoilt(document: dict, paths: list[tuple], chance: random.Random) -> dict:
    """Mostly with values of the same type, which are not refused at once."""
    changed = copy.deepcopy(document)
    for path in paths:
        at = changed
        try:
            for key in path[:-1]:
                at = at[key]
            alike = [one for one in WRONG if type(one) is type(at[path[-1]])]
            at[path[-1]] = chance.choice(alike if alike and chance.random() < 0.9 else WRONG)
        except (KeyError, IndexError, TypeError):
            continue  # another change took the place away
    return changed


def test_snapshots_of_anybody(tmp_path):
    """A diagnosis or one sentence, whatever is in them; the first gives rises to the second."""
    chance = random.Random(4791)
    files = [snapshot(lag(healthy(tmp_path))), snapshot(add_gpus(healthy(tmp_path, 2)))]
    good = [json.loads(file.read_text()) for file in files]
    places = [places_of(one) for one in good]
    accepted = 0
    for attempt in range(30):
        made = []
        for document, known in zip(good, places, strict=True):
            paths = chance.sample(known, 1 + attempt % 2)
            made.append(tmp_path / f"{len(made)}.json")
            made[-1].write_text(json.dumps(spoilt(document, paths, chance)))
        words = ["--from", *map(str, [*made, made[0]])]
        done = run("doctor", *words, "--fix" if attempt % 2 else "--json")
        assert done.returncode in ((0, 1, 2, 3) if done.stdout else (64,)), (attempt, done)
        if done.stdout:
            accepted += 1
            assert "\x1b" not in done.stdout and "\n$(id)" not in done.stdout
        else:
            assert "is not a snapshot" in done.stderr and len(done.stderr.splitlines()) == 1
    assert accepted > 8

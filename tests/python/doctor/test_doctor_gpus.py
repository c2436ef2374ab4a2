"""`ringwood doctor` on hosts with GPUs, whose driver tells much, little or nothing."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from doctor_gpus import (
    ADDRESSES,
    COMMANDS,
    LINKS,
    NVLINKS,
    PEERS,
    REPORT,
    RULES_OF_GPUS,
    TABLE,
    TOPOLOGY,
    add_gpus,
    nvlinks,
    peers,
    report,
    saying,
    table,
    tell,
    topology,
)
from doctor_runs import change, doctor, missed_rules, snapshot
from doctor_trees import GPU_CLASS, add_pci, healthy
from processes import PATIENCE_S
from ringwood_command import BINARY, environment, run

NEEDS = {"gpu-driver", "gpu-list", "gpu-ecc", "gpu-nvlink", "gpu-topology", "gpu-peer-access"}
RULES = {*RULES_OF_GPUS, "hosts-gpus"}


def gpus_of(file) -> list[dict]:
    return json.loads(file.read_text())["gpus"]


def test_a_host_with_gpus_that_are_well_has_no_finding(tmp_path):
    tree = add_gpus(healthy(tmp_path))
    found = doctor("--root", tree.root)
    assert (found.code, found.ids) == (0, set()), found.text
    assert not NEEDS & set(found.missed()), found.text
    third = gpus_of(snapshot(tree))[2]
    assert third["index"] == 2 and third["pci"] == ADDRESSES[2]
    assert (third["nvlinks"], third["nvlinks_up"], third["ecc_errors"]) == (LINKS, LINKS, 0)
    known = {"GPU0": "NV12", "GPU1": "NV12", "GPU3": "NV12", "mlx5_0": "SYS", "mlx5_1": "PIX"}
    assert third["paths"] == known
    assert third["peers"] == {"GPU0": "OK", "GPU1": "OK", "GPU3": "OK"}


EVIDENCE = {
    "gpu-driver": f"nvidia-smi lists 3 of 4 GPUs; missing is {ADDRESSES[3]}",
    "gpu-ecc": f"GPU 2 ({ADDRESSES[2]}) counts 2 uncorrected ECC errors",
    "gpu-nvlink-down": f"GPU 3 ({ADDRESSES[3]}) has 10 NVLinks active, GPU 0 has 12",
    "gpu-peer-access": "CNS (chipset not supported): GPU0-GPU2, GPU0-GPU3, GPU1-GPU2, GPU1-GPU3",
    "gpu-nic-far": f"every RDMA card is at the other processor for GPU 3 ({ADDRESSES[3]})",
}


@pytest.mark.parametrize("rule", EVIDENCE)
def test_what_is_wrong_is_named(rule, tmp_path):
    tree = healthy(tmp_path)
    RULES_OF_GPUS[rule](tree)
    (finding,) = doctor("--root", tree.root).said["findings"]
    assert finding["id"] == rule and EVIDENCE[rule] in finding["evidence"], finding


# What nvidia-smi prints in place of a list.
FAULTS = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
    "the latest NVIDIA driver is installed and running.\n",
    "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161",
    "Unable to determine the device handle for GPU0000:87:00.0: Unknown Error",
)


@pytest.mark.parametrize("text", FAULTS)
def test_a_driver_that_does_not_answer(text, tmp_path):
    tree = healthy(tmp_path)
    saying(TABLE, text)(tree)
    found = doctor("--root", tree.root)
    assert (found.code, found.ids) == (2, {"gpu-driver"}), found.text
    assert text.splitlines()[0] in found.said["findings"][0]["evidence"]
    assert missed_rules(found, "gpu-list") == RULES - {"gpu-driver"}


# Such as from a container that has no GPU: it cannot be told whether anything is wrong.
UNCLEAR = (
    "",
    "No devices were found",
    "Failed to initialize NVML: Unknown Error",
    "0, , , ,",
    "\0",
)


@pytest.mark.parametrize("text", UNCLEAR)
def test_a_list_that_is_none_is_listed_as_not_checked(text, tmp_path):
    tree = healthy(tmp_path)
    saying(TABLE, text)(tree)
    found = doctor("--root", tree.root)
    assert (found.code, found.ids) == (0, set()), found.text
    assert missed_rules(found, "gpu-driver") == RULES


NOISE = (
    *("", "GPU", "GPU 0", "GPU0 CPU", "GPU0 GPU1 CPU\nGPU0 X\nGPU1", "0, a, 1:2:3, b, -1\n" * 999),
    *("\tGPU0\tGPU1\tCPU\nGPU0\tX\tSYS\nGPU1\t?\tX", "GPU 0:\nLink 0: inactive\n" * 9, "\x1b[4m"),
    *("GPU99999999999 OK", "GPU 0: x\n Link 9: ?", "GPU0 GPU1\nGPU0 U N/A\nGPU1 NODE"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_noise_is_no_finding(command, tmp_path):
    for number, text in enumerate(NOISE):
        tree = healthy(tmp_path / str(number))
        saying(command, text)(tree)
        found = doctor("--root", tree.root)
        assert found.ids <= ({"gpu-nvlink-down"} if "Link 0: inactive" in text else set()), text
    tree.remove("sos_commands/nvidia")
    found = doctor("--root", tree.root)
    assert (found.code, found.ids) == (0, set()), found.text
    assert "no output of nvidia-smi" in found.missed()["gpu-driver"]


@pytest.mark.parametrize(
    ("command", "what", "rule"),
    [
        (NVLINKS, "gpu-nvlink", "gpu-nvlink-down"),
        (TOPOLOGY, "gpu-topology", "gpu-nic-far"),
        (PEERS, "gpu-peer-access", "gpu-peer-access"),
    ],
)
def test_an_answer_that_is_missing_is_listed(command, what, rule, tmp_path):
    tree = healthy(tmp_path)
    saying(command, "something else")(tree)
    found = doctor("--root", tree.root)
    assert found.ids == set() and rule in missed_rules(found, what), found.text


def test_the_report_that_sosreport_keeps_tells_the_same(tmp_path):
    tree = add_gpus(healthy(tmp_path))
    before = gpus_of(snapshot(tree))
    tree.remove("sos_commands/nvidia/" + TABLE.translate(str.maketrans(" =,", "___")))
    tell(tree, REPORT, report())
    assert gpus_of(snapshot(tree)) == before
    tell(tree, REPORT, report(ecc=3))
    found = doctor("--root", tree.root)
    assert found.ids == {"gpu-ecc"} and "counts 3 uncorrected" in found.text, found.text


def test_double_bit_errors_of_older_cards(tmp_path):
    tree = add_gpus(healthy(tmp_path))
    tree.remove("sos_commands/nvidia/" + TABLE.translate(str.maketrans(" =,", "___")))
    errors = "".join(
        f"            {bits} Bit\n                Device Memory     : {count}\n"
        f"                Total             : {count}\n"
        for bits, count in (("Single", 9), ("Double", 4))
    )
    parts = "".join(f"        {part}\n{errors}" for part in ("Volatile", "Aggregate"))
    tell(tree, REPORT, f"GPU 00000000:18:00.0\n    ECC Errors\n{parts}")
    assert [one["ecc_errors"] for one in gpus_of(snapshot(tree))] == [4]


def test_the_topology_of_older_drivers(tmp_path):
    """It names cards in the first line, and has been pasted with blanks."""
    tree = add_gpus(healthy(tmp_path))
    before = gpus_of(snapshot(tree))
    text = topology().split("Legend")[0].replace("NIC", "mlx5_").replace("\t", "      ")
    tell(tree, TOPOLOGY, text.replace("\x1b[4m", "").replace("\x1b[0m", ""))
    assert gpus_of(snapshot(tree)) == before


def test_access_in_one_direction_only(tmp_path):
    tree = healthy(tmp_path)
    saying(PEERS, peers(lambda i, j: "DR" if (i, j) == (3, 1) else "OK"))(tree)
    (finding,) = doctor("--root", tree.root).said["findings"]
    assert "DR (disabled by a setting of the driver): GPU1-GPU3" in finding["evidence"]


# Faults of a kind that hardware explains are notes.
SEVERITY = {
    "no link of one, of a switch": (NVLINKS, nvlinks((LINKS, LINKS, LINKS, 0)), "warning"),
    "no pair": (PEERS, peers(lambda i, j: "CNS"), "warning"),
    "no pair, of cards that never can": (PEERS, peers(lambda i, j: "GNS"), "note"),
    "some of cards that cannot": (
        PEERS,
        peers(lambda i, j: "OK" if i + j == 1 else "NS"),
        "warning",
    ),
}


@pytest.mark.parametrize("case", SEVERITY)
def test_how_bad_it_is(case, tmp_path):
    command, text, severity = SEVERITY[case]
    tree = healthy(tmp_path)
    saying(command, text)(tree)
    findings = doctor("--root", tree.root).said["findings"]
    assert [one["severity"] for one in findings] == [severity], findings


def test_a_card_without_a_bridge_is_a_note(tmp_path):
    """RTX A6000: the first two are joined by a bridge."""
    tree = add_gpus(healthy(tmp_path))
    text = topology("SYS").replace("GPU0\t X \tSYS", "GPU0\t X \tNV4")
    tell(tree, TOPOLOGY, text.replace("GPU1\tSYS\t X ", "GPU1\tNV4\t X "))
    tell(tree, NVLINKS, nvlinks((4, 4, 0, 0)))
    found = doctor("--root", tree.root)
    assert (found.code, found.ids) == (0, {"gpu-nvlink-down"}), found.text


def test_cards_without_nvlink(tmp_path):
    tree = add_gpus(healthy(tmp_path))
    tell(tree, NVLINKS, "")
    tell(tree, TOPOLOGY, topology("SYS"))
    tell(tree, TABLE, table(model="NVIDIA L4", ecc=("[N/A]",) * 4))
    found = doctor("--root", tree.root)
    assert (found.code, found.ids) == (0, set()), found.text
    assert missed_rules(found, "gpu-ecc") == {"gpu-ecc"}
    assert "gpu-nvlink" not in found.missed()


@pytest.mark.parametrize(
    ("kind", "vendor", "what"),
    [
        (GPU_CLASS, "0x1002", "gpu-driver"),  # AMD Instinct
        ("0x120000", "0x1002", "gpu-driver"),
        ("0x030000", "0x102b", "gpu"),  # Matrox, of a board
        ("0x030000", "0x1a03", "gpu"),  # ASPEED
        ("0x030000", "0x10de", "gpu"),  # a display
    ],
)
def test_other_displays_and_gpus_are_no_error(kind, vendor, what, tmp_path):
    tree = healthy(tmp_path)
    add_pci(tree, "0000:85:00.0", "0000:87:00.0", 1, kind)
    tree.write("sys/bus/pci/devices/0000:87:00.0/vendor", vendor)
    tell(tree, TABLE, FAULTS[0])
    found = doctor("--root", tree.root)
    assert (found.code, found.ids) == (0, set()), found.text
    assert missed_rules(found, what) >= RULES


@pytest.mark.parametrize(("driver", "ids"), [("vfio-pci", set()), ("", {"gpu-driver"})])
def test_a_card_that_the_driver_does_not_have(driver, ids, tmp_path):
    """It is a virtual machine's, or the driver could not take it."""
    tree = healthy(tmp_path)
    RULES_OF_GPUS["gpu-driver"](tree)
    place = next((tree.root / "sys/devices").glob(f"pci*/*/{ADDRESSES[3]}/driver"))
    place.unlink()
    if driver:
        (tree.root / "sys/bus/pci/drivers" / driver).mkdir()
        tree.link(str(place.relative_to(tree.root)), f"sys/bus/pci/drivers/{driver}")
    file = snapshot(tree)
    change(file, ["system", "gpus_permitted"], 3)
    assert doctor("--from", file).ids == ids


@pytest.mark.parametrize(("permitted", "ids"), [(3, set()), (4, {"gpu-driver"}), (-1, set())])
def test_a_job_that_has_some_of_the_gpus(permitted, ids, tmp_path):
    tree = healthy(tmp_path)
    RULES_OF_GPUS["gpu-driver"](tree)
    file = snapshot(tree)
    change(file, ["system", "gpus_permitted"], permitted)
    assert doctor("--from", file).ids == ids


ODD = {
    "number of GPUs: host3 has 0; the others 4": None,
    "driver: host3 has 550.90.07; the others 535.154.05": (TABLE, table(version="550.90.07")),
    "GPUs: host3 has NVIDIA A100-SXM4-80GB": (TABLE, table(model="NVIDIA A100-SXM4-80GB")),
    "active NVLinks of a GPU: host3 has 10; the others 12": (NVLINKS, nvlinks((10,) * 4)),
}


@pytest.mark.parametrize("evidence", ODD)
def test_the_odd_host_is_named(evidence, tmp_path):
    trees = [healthy(tmp_path, host) for host in (1, 2, 3)]
    for tree in trees[:2] if ODD[evidence] is None else trees:
        add_gpus(tree)
    if ODD[evidence] is not None:
        tell(trees[2], *ODD[evidence])
    found = doctor("--from", *map(snapshot, trees))
    assert (found.ids, found.hosts) == ({"hosts-gpus"}, {"host3"}), found.text
    assert evidence in found.said["findings"][0]["evidence"]


def test_a_lost_gpu_is_told_once(tmp_path):
    trees = [healthy(tmp_path, host) for host in (1, 2, 3)]
    for tree in trees[:2]:
        add_gpus(tree)
    RULES_OF_GPUS["gpu-driver"](trees[2])
    assert doctor("--from", *map(snapshot, trees)).ids == {"gpu-driver"}


def test_a_change_names_the_gpu(tmp_path):
    tree = add_gpus(healthy(tmp_path))
    before = snapshot(tree)
    tell(tree, NVLINKS, nvlinks((LINKS, LINKS, LINKS, 11)))
    since = doctor("--root", tree.root, "--against", before).said["since"]
    told = [(one["what"], one["before"], one["after"]) for one in since["changes"]]
    assert told == [("GPU 3: nvlinks_up", "12", "11")]


def program(folder, text: str) -> dict[str, str]:
    file = folder / "nvidia-smi"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return environment(PATH=f"{folder}:{os.environ['PATH']}")


def test_a_host_without_a_gpu_asks_nobody(tmp_path):
    if any(one["kind"].startswith(("0x0302", "0x12")) for one in pci_of_this_host(tmp_path)):
        pytest.skip("this host may have a GPU")
    program(tmp_path, f"touch {tmp_path}/asked")
    run("doctor", "--json", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert not (tmp_path / "asked").exists()


def pci_of_this_host(folder) -> list[dict]:
    run("doctor", "--snapshot", f"{folder}/own.json")
    return json.loads((folder / "own.json").read_text())["pci"]


ANSWERS = {
    "exec >&-\nexec sleep 3600": ("no answer within 10 s", ""),
    "exit 6": ("failed with 6", ""),
    f'echo "{FAULTS[0].strip()}"\nexit 9': ("", "couldn't communicate"),
    "exit 15": ("", "fallen off the bus"),
}


def asked_here(tree, folder, text: str) -> tuple[str, str]:
    """Why the driver's answer is missing, and what it says is wrong; with the tree's /sys, in a
    mount namespace of its own, and a nvidia-smi that does what `text` says."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here")
    inner = f"mount --bind {tree.root}/sys /sys && "
    inner += f"exec {BINARY} doctor --snapshot {folder}/s.json"
    words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", inner]
    done = subprocess.run(
        words,
        env=program(folder, text),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    if not (folder / "s.json").exists():
        pytest.skip(f"no mount namespaces here: {done.stderr}")
    said = json.loads((folder / "s.json").read_text())
    reasons = [one["reason"] for one in said["gaps"] if one["need"] == "gpu-driver"]
    return "".join(reasons), said["system"]["gpu_fault"]


@pytest.mark.parametrize("text", ANSWERS)
def test_a_program_that_fails_or_hangs_on_this_host(text, tmp_path):
    tree = add_gpus(healthy(tmp_path))
    tree.remove("sys/module/nvidia")
    for told, known in zip(asked_here(tree, tmp_path, text), ANSWERS[text], strict=True):
        assert known in told and bool(known) == bool(told), told


def test_a_container_that_was_given_no_gpu(tmp_path):
    """The driver is loaded, and none of the devices is there."""
    if any(Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("this host has GPUs")
    tree = add_gpus(healthy(tmp_path))
    reason, fault = asked_here(tree, tmp_path, f'echo "{FAULTS[0].strip()}"\nexit 9')
    assert "may open no GPU" in reason and fault == ""


def test_a_host_that_answers(tmp_path):
    tree = add_gpus(healthy(tmp_path))
    for number, command in enumerate(COMMANDS):
        name = command.translate(str.maketrans(" /,=", "____"))
        shutil.copy(tree.root / f"sos_commands/nvidia/{name}", tmp_path / str(number))
    cases = ("--query*", "nvlink*", "*-m", "*-p2p*")
    answers = "\n".join(f"{case}) cat {tmp_path}/{i} ;;" for i, case in enumerate(cases))
    assert asked_here(tree, tmp_path, f'case "$*" in\n{answers}\nesac') == ("", "")
    assert gpus_of(tmp_path / "s.json") == gpus_of(snapshot(tree))

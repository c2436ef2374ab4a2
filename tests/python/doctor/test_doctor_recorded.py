"""`ringwood doctor --root` on trees that were recorded, not made by hand; and without root."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from doctor_runs import doctor, missed_rules
from ringwood_command import BINARY, environment, run

RECORDED = Path(__file__).with_name("recorded_rxe.json")


def unpacked(root: Path) -> Path:
    tree = json.loads(RECORDED.read_text())
    for path, text in tree["files"].items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    for path, target in tree["links"].items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(target)
    return root


def doctor_of(root: Path, file: Path) -> None:
    done = run("doctor", "--root", str(root), "--snapshot", str(file))
    assert file.exists(), done.stderr


def test_a_host_with_soft_roce(tmp_path):
    root = unpacked(tmp_path / "tree")
    found = doctor("--root", root)
    assert (found.code, found.ids) == (0, set()), found.text
    (host,) = found.said["hosts"]
    assert host["host"] == "roce-h0"
    rails = {rail["port"]: rail for rail in host["rails"]}
    assert rails.keys() == {"rxe0/1", "rxe1/1"}
    for number, rail in enumerate(rails.values()):
        assert (rail["state"], rail["path_mtu"]) == ("ACTIVE", "4096"), rail
        assert rail["gid"] == f"[1] 10.77.{number}.1" and rail["interface"] == f"eth{number}"
        assert rail["gid_chosen_as"] == "RoCE v2, IPv4" and rail["rate"] == "unknown"
    assert "pause-storm" in missed_rules(found, "ethtool-statistics of eth1")
    file = tmp_path / "snapshot.json"
    doctor_of(root, file)
    cards = json.loads(file.read_text())["pci"]
    # Links to drivers lead out of the copy.
    assert {card["driver"] for card in cards if card["kind"].startswith("0x02")} == {"virtio-pci"}


@pytest.mark.parametrize(
    ("path", "text", "rule"),
    [
        ("sys/class/infiniband/rxe1/ports/1/state", "1: DOWN", "port-down"),
        ("sys/class/net/eth1/mtu", "1500", "mtu-small"),
        ("proc/self/mounts", "tmpfs /dev/shm tmpfs rw,size=65536k 0 0", "shm-small"),
        ("proc/sys/fs/file-nr", "95\t0\t100", "files-full"),
    ],
)
def test_a_fault_planted_in_it(path, text, rule, tmp_path):
    root = unpacked(tmp_path / "tree")
    file = root / path
    assert file.exists()
    file.write_text(f"{text}\n")
    found = doctor("--root", root)
    assert found.ids == {rule}, found.text


@pytest.mark.skipif(os.geteuid() != 0, reason="it is what every other test does here")
def test_without_root(tmp_path):
    """It works, and says what root would add."""
    words = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    if subprocess.run([*words, "test", "-x", str(BINARY)]).returncode != 0:
        pytest.skip("another user may not run what was built here")
    line = [*words, str(BINARY), "doctor", "--json", "--ignore", "shm-small"]
    done = subprocess.run(line, env=environment(), capture_output=True, text=True)
    told = json.loads(done.stdout)
    assert done.returncode in (0, 1), done.stderr
    reasons = {one["what"]: one["reason"] for one in told["not_checked"]}
    if Path("/sys/bus/pci/devices").is_dir() and shutil.which("lspci"):
        assert "root only" in reasons.get("pci-capabilities", "root only"), reasons
    line = [*words, str(BINARY), "doctor", "--pid", str(os.getpid()), "--json"]
    done = subprocess.run(line, env=environment(), capture_output=True, text=True)
    reasons = {one["what"]: one["reason"] for one in json.loads(done.stdout)["not_checked"]}
    assert "root only" in reasons["open-files"], reasons
    assert "Permission denied" in reasons["environment"], reasons

"""The pages of tools/guide: what they show of `ringwood doctor` is what it prints.

python tests/python/commands/test_guide.py    writes the outputs into the pages anew
"""

import re
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path += [str(ROOT / "tests/python"), str(ROOT / "bench")]  # when run by itself

from doctor_rules import RULES_OF_A_TREE  # noqa: E402
from doctor_runs import raise_counter, raise_statistic, snapshot, two_samples  # noqa: E402
from doctor_trees import healthy  # noqa: E402
from ringwood_command import run  # noqa: E402
from test_doctor_hosts import RULES_OF_HOSTS  # noqa: E402

GUIDE = ROOT / "tools/guide"
OUTPUT = re.compile(r"(<!-- doctor -->\n```\n)(.*?)(```\n)", re.DOTALL)


def of_a_tree(rule: str):
    def words(folder: Path) -> list[str]:
        tree = healthy(folder)
        RULES_OF_A_TREE[rule](tree)
        return ["--root", str(tree.root)]

    return words


def of_hosts(rule: str):
    def words(folder: Path) -> list[str]:
        trees = [healthy(folder, host) for host in (1, 2, 3)]
        RULES_OF_HOSTS[rule](trees[2])
        return ["--from", *(str(snapshot(tree)) for tree in trees)]

    return words


def lossy(folder: Path) -> list[str]:
    def lose(tree) -> None:
        raise_counter(tree, "hw_counters/out_of_sequence", 500)
        raise_counter(tree, "counters/port_rcv_packets", 10**5)

    return ["--from", *map(str, two_samples(healthy(folder), lose))]


def pausing(folder: Path) -> list[str]:
    words = ["--from"]
    for host, way in ((1, "rx"), (2, "rx"), (3, "tx")):
        counter = f"{way}_prio3_pause_duration"
        samples = two_samples(
            healthy(folder, host), lambda tree, c=counter: raise_statistic(tree, c, 4_000_000)
        )
        words += map(str, samples)
    return words


# The page, and what is wrong with the hosts on it.
PAGES = {
    "gid": of_a_tree("gid-fixed-index"),
    "silent-tcp": of_a_tree("memlock"),
    "loss": lossy,
    "dscp": of_hosts("hosts-dscp"),
    "pfc-ecn": pausing,
    "lag": of_a_tree("bond-queue-pairs"),
    "flaps": of_a_tree("link-flapping"),
    "subnets": of_a_tree("arp-flux"),
    "mtu": of_hosts("hosts-mtu"),
    "pci": of_a_tree("pcie-link"),
}


def findings(page: str, folder: Path) -> str:
    """What doctor prints of its findings: neither the ports nor what was not checked."""
    printed = run("doctor", *PAGES[page](folder)).stdout
    start = re.search(r"^(host\d.*\n  (error|warning))", printed, re.MULTILINE)
    assert start, printed
    return printed[start.start() :].split("\n\n")[0].rstrip() + "\n"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_doctor_prints(page, tmp_path):
    shown = OUTPUT.search((GUIDE / f"{page}.md").read_text())
    assert shown, f"{page}.md shows nothing of doctor"
    assert shown[2] == findings(page, tmp_path)


def test_every_page_is_in_the_index():
    index = (GUIDE / "README.md").read_text()
    pages = {file.name for file in GUIDE.glob("*.md")} - {"README.md"}
    assert pages == set(re.findall(r"\]\(([\w-]+\.md)\)", index))
    assert len(pages - {"errors.md"}) == 15


def main() -> None:
    for page in PAGES:
        file = GUIDE / f"{page}.md"
        with tempfile.TemporaryDirectory(prefix="guide-") as folder:
            said = findings(page, Path(folder))
        file.write_text(OUTPUT.sub(lambda m, text=said: m[1] + text + m[3], file.read_text()))


if __name__ == "__main__":
    main()

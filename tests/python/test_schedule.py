"""`ringwood schedule`: prints, proves and draws; and the pictures of the documents are current."""

import re
import subprocess

import pytest
from ringwood_command import BINARY, ROOT, environment, run

PICTURES = ROOT / "collectives" / "pictures"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    command = [ROOT / "tools" / "pictures", folder]
    subprocess.run(command, check=True, env=environment(RINGWOOD_BINARY=str(BINARY)), timeout=60)
    return folder


@pytest.mark.parametrize("name", sorted(file.name for file in PICTURES.iterdir()))
def test_pictures_are_current(name, drawn):
    assert (drawn / name).read_text() == (PICTURES / name).read_text(), "run: tools/pictures"


def test_every_picture_is_tested(drawn):
    """All that tools/pictures draws is kept, and all that the documents show is drawn."""
    names = {file.name for file in drawn.iterdir()}
    assert names == {file.name for file in PICTURES.iterdir()}
    documents = [ROOT / "README.md", *ROOT.glob("*/README.md")]
    shown = {
        (document.parent / picture).resolve()
        for document in documents
        for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", document.read_text())
    }
    assert shown == {PICTURES / name for name in names}


def test_the_table_of_the_document_is_what_is_drawn():
    drawn = run("schedule", "draw", "all_reduce", "ring").stdout
    assert drawn in (ROOT / "collectives" / "README.md").read_text()


def test_the_document_counts_the_algorithms():
    rows = run("algorithms").stdout.splitlines()
    assert f"[{len(rows)} algorithms](collectives" in (ROOT / "README.md").read_text()


def test_a_text_is_proved_and_drawn(tmp_path):
    text = run("schedule", "print", "broadcast", "chain", "--root", "2").stdout
    file = tmp_path / "chain.txt"
    file.write_text(text)
    of_file = ["broadcast", "--file", str(file), "--root", "2"]
    proved = run("schedule", "verify", *of_file)
    assert (proved.returncode, proved.stdout) == (0, "proved: 4 ranks, 6 steps, 3 rounds\n")
    drawn = run("schedule", "draw", *of_file).stdout
    assert drawn == run("schedule", "draw", "broadcast", "chain", "--root", "2").stdout
    refuted = run("schedule", "verify", "broadcast", "--file", str(file), "--root", "1")
    assert refuted.returncode == 1
    assert refuted.stdout.startswith("refuted: rank 2 step 0 (send 3 [0]) reads chunk 0")


def test_rank_order_is_told():
    done = run("schedule", "verify", "all_reduce", "rank_order", "--ranks", "7", "--segments", "2")
    assert done.stdout.endswith("sums in rank order\n")
    done = run("schedule", "verify", "all_reduce", "ring", "--ranks", "7")
    assert "rank order" not in done.stdout


def test_rows_that_differ_are_told(tmp_path):
    file = tmp_path / "uneven.txt"
    file.write_text(
        "schedule rank 0 of 3 chunks 1\nsend 1 [0]\n"
        "recv_reduce 1 [0]\nrecv_reduce 2 [0]\nsend 2 [0]\n"
        "schedule rank 1 of 3 chunks 1 scratch 0\nsend 0 [0]\nrecv 0 [1]\nreduce [0] <- [1]\n"
        "copy [1] <- [0]\nrecv_reduce 2 [0]\n"
        "schedule rank 2 of 3 chunks 1\nsend 0 [0]\nsend 1 [0]\nrecv 0 [0]\n"
    )
    done = run("schedule", "verify", "all_reduce", "--file", str(file))
    assert done.stdout.startswith("proved: 3 ranks")
    assert done.stdout.endswith("16- and 8-bit floats rounded at each addition\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["verify", "all_reduce"], "--file"),
        (["verify", "all_reduce", "ring", "--file", "x"], "--file"),
        (["verify", "all_reduce", "exchange"], "there are: direct"),
        (["verify", "all_reduce", "hierarchical", "--hosts", "0,1"], "on these hosts"),
        (["verify", "plus", "ring"], "unknown collective"),
        (["draw", "reduce", "chain", "--root", "4"], "root 4"),
        (["draw", "all_reduce", "ring", "--svg", "/nowhere/x"], "cannot be written"),
        (["print", "all_reduce", "--file", "/nowhere/x"], "cannot be read"),
        (["print", "all_reduce", "--file", "/dev/null"], "no line"),
    ],
)
def test_bad_input_is_one_sentence(arguments, told):
    done = run("schedule", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_text_is_run_on_real_ranks(tmp_path):
    file = tmp_path / "direct.txt"
    file.write_text(run("schedule", "print", "all_gather", "direct", "--ranks", "3").stdout)
    ran = run(
        "schedule", "run", "all_gather", "--file", str(file), "-e", "64K", "-f", "64", "--csv"
    )
    assert ran.returncode == 0, ran.stderr
    header, *rows = [line.split(",") for line in ran.stdout.splitlines() if "," in line]
    assert len(rows) >= 2
    for row in rows:
        result = dict(zip(header, row, strict=True))
        assert (result["algorithm"], result["ranks"], result["wrong"]) == ("schedules", "3", "0")
    file.write_text(file.read_text().replace("recv 1 [1]", "recv 1 [2]"))
    refuted = run("schedule", "run", "all_gather", "--file", str(file))
    assert refuted.returncode == 2
    assert "these schedules are no all_gather" in refuted.stderr

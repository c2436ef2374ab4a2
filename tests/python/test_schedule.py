"""`ringwood schedule`: shows, proves, costs, draws and runs; and the pictures of the documents are
current."""

import json
import os
import re
import subprocess
import sys

import pytest
from processes import PATIENCE_S
from ringwood_command import BINARY, ROOT, complaints, environment, run, run_measured

PICTURES = ROOT / "collectives" / "pictures"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    command = [ROOT / "tools" / "pictures", folder]
    subprocess.run(
        command, check=True, env=environment(RINGWOOD_BINARY=str(BINARY)), timeout=PATIENCE_S
    )
    return folder


@pytest.mark.parametrize("name", sorted(file.name for file in PICTURES.iterdir()))
def test_pictures_are_current(name, drawn):
    assert (drawn / name).read_text() == (PICTURES / name).read_text(), "run: tools/pictures"


def test_every_picture_is_tested(drawn):
    """All that tools/pictures draws is kept, and all that the documents show is drawn."""
    names = {file.name for file in drawn.iterdir()}
    assert names == {file.name for file in PICTURES.iterdir()}
    documents = [ROOT / "README.md", *ROOT.glob("*/README.md")]
    documents += ROOT.glob("tools/*/README.md")
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
    text = run("schedule", "show", "broadcast", "chain", "--root", "2").stdout
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
    nowhere = run("schedule", "verify", "broadcast", "--file", str(file), "--root", "4")
    assert nowhere.returncode == 2 and "root 4 is not one of 4 ranks" in complaints(nowhere)


@pytest.mark.parametrize(
    "collective, row",
    [("all_reduce", "ring"), ("all_reduce", "direct"), ("all_to_all", "pairwise")],
)
def test_a_thousand_ranks_are_proved_in_little_memory(collective, row):
    """Two or four million steps, of which those of one rank are stored."""
    call = ["verify", collective, row, "--ranks", "1000", "--json"]
    done, kib = run_measured("schedule", *call)
    assert done.returncode == 0 and json.loads(done.stdout)["proved"]
    assert kib < 120 << 10


@pytest.mark.parametrize("row", ["rank_order", "one_shot"])
def test_ranks_that_differ_are_proved_in_little_memory(row):
    """Half a million and a million steps, all of them unlike, but of few runs."""
    call = ["verify", "all_reduce", row, "--ranks", "512", "--json"]
    done, kib = run_measured("schedule", *call)
    assert done.returncode == 0 and json.loads(done.stdout)["proved"]
    assert kib < 50 << 10


def test_what_is_too_large_to_be_proved_is_refused_at_once(tmp_path):
    file = tmp_path / "many.txt"
    file.write_text("schedule rank 0 of 1 chunks 1048577\n")
    call = ["schedule", "verify", "all_reduce"]
    for arguments, what in (
        (["--file", str(file), "--segments", "4096"], "chunks"),
        (["ring", "--ranks", "1024", "--segments", "1024"], "steps"),
        (["ring", "--hosts", "5000", "--segments", "4096"], "chunks"),
    ):
        done = run(*call, *arguments)
        assert done.returncode == 2 and f"more than 2^31 {what} are too" in done.stderr, arguments
    shown = run("schedule", "show", "all_reduce", "--file", str(file), "--segments", "4096")
    assert shown.returncode == 2 and "are more than 2^31" in shown.stderr


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
        (["cost", "all_reduce", "ring", "-b", "1M", "-e", "1K"], "--minbytes 1M is more than"),
        (["cost", "all_reduce", "ring", "-d", "int1"], "is not a data type"),
        (
            ["draw", "all_reduce", "ring", "--hosts", "9", "--ranks", "4"],
            "--hosts 9: it contradicts --ranks 4",
        ),
        (["draw", "all_reduce", "ring", "--hosts", "2x2", "--ranks", "8"], "it places 4"),
        (["run", "all_reduce"], "either an algorithm"),
        (["run", "all_reduce", "ring", "--file", "x"], "either an algorithm"),
        (["run", "all_reduce", "ring", "--algorithm", "ring"], "give one of them"),
        (["run", "all_reduce", "ring", "direct"], "one word too many"),
        (["cost", "all_reduce", "ring", "--algorithm", "ring"], "--algorithm"),
        (["draw", "all_reduce", "ring", "--json", "--svg", "x"], "--svg excludes --json"),
    ],
)
def test_bad_input_is_one_sentence(arguments, told):
    done = run("schedule", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("action", ["show", "verify", "cost", "draw", "run"])
def test_an_algorithm_is_a_word_or_an_option(action):
    more = ["-e", "8", "--json"] if action in ("cost", "run") else ["--json"]
    done = [
        run("schedule", action, "all_reduce", *named, "--ranks", "3", *more)
        for named in (["ring"], ["--algorithm", "ring"])
    ]
    assert [it.returncode for it in done] == [0, 0], done
    one, other = (json.loads(it.stdout) for it in done)
    assert set(one) == set(other)
    told = one["rows"][0] if action == "run" else one
    assert told["algorithm"] == "ring" and told["ranks"] == 3
    assert action in ("cost", "run") or one == other


def test_a_drawing_for_programs_is_that_of_the_table():
    drawn = json.loads(run("schedule", "draw", "broadcast", "chain", "--json").stdout)
    assert (drawn["collective"], drawn["root"], drawn["rounds"]) == ("broadcast", 0, 3)
    told = [(m["round"], m["arrival"], m["from"], m["to"], m["adds"]) for m in drawn["messages"]]
    assert told == [(i, i + 1, i, i + 1, False) for i in range(3)]
    assert all(message["chunks"] == [0] for message in drawn["messages"])


def test_what_does_not_fit_into_memory_is_one_sentence(tmp_path):
    steps = ["send 1 [0:16777216]", "recv 0 [0:16777216]"]
    lines = [f"schedule rank {rank} of 2 chunks 16777216\n{steps[rank]}\n" for rank in (0, 1)]
    (tmp_path / "huge.txt").write_text("".join(lines))
    words = [str(BINARY), "schedule", "draw", "broadcast", "--file", str(tmp_path / "huge.txt")]
    limited = ["sh", "-c", 'ulimit -v 1000000; exec "$@"', "sh", *words]
    done = subprocess.run(
        limited, capture_output=True, text=True, env=environment(), timeout=PATIENCE_S
    )
    assert done.returncode == 1
    assert "not enough memory" in done.stderr
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


@pytest.mark.parametrize("action", ["cost", "draw"])
def test_more_steps_than_can_be_shown_are_refused_at_once(action):
    done = run("schedule", action, "all_reduce", "ring", "--ranks", "4096")
    assert (done.returncode, done.stdout) == (2, "")
    assert "all ranks together have more than" in done.stderr and "fewer ranks" in done.stderr


@pytest.mark.parametrize("root", ["0", "1"])
def test_a_root_of_many_steps_is_one_rank_of_many(root):
    """It has as many steps as all others together."""
    words = ["broadcast", "linear", "--ranks", "2048", "--root", root]
    done = run("schedule", "cost", *words, "--sizes", "8", "--parameters", "default")
    assert done.returncode == 0, done.stderr


def test_a_row_for_hosts_says_so():
    done = run("schedule", "show", "all_reduce", "hierarchical", "--ranks", "8")
    assert done.returncode == 2 and "8 ranks on one host (--hosts 2 would do)" in done.stderr
    odd = run("schedule", "show", "all_reduce", "hierarchical", "--ranks", "7")
    assert odd.returncode == 2 and "--hosts" not in odd.stderr.split("; see")[0]


def test_hosts_alone_say_how_many_ranks():
    for hosts, ranks in (("2", 4), ("9", 9), ("3x2", 6)):
        drawn = run("schedule", "draw", "all_reduce", "ring", "--hosts", hosts, "--json")
        assert json.loads(drawn.stdout)["ranks"] == ranks


def test_a_text_of_some_ranks_says_which_are_missing(tmp_path):
    """The example of collectives/README.md, as somebody copies it: the schedule of one rank."""
    readme = (ROOT / "collectives" / "README.md").read_text()
    file = tmp_path / "copied.txt"
    file.write_text(re.search(r"```\n(schedule rank 1 of 4 .*?)```", readme, re.DOTALL)[1])
    for action in ("show", "verify", "cost", "draw", "run"):
        done = run("schedule", action, "all_reduce", "--file", str(file))
        assert (done.returncode, done.stdout) == (2, "")
        assert "1 of the schedules of 4 ranks: add those of ranks 0, 2, 3;" in done.stderr


@pytest.mark.parametrize("given", [3, 5])
@pytest.mark.parametrize("action", ["show", "verify", "cost", "draw", "run"])
def test_a_text_for_other_ranks_says_how_many(action, given, tmp_path):
    file = tmp_path / "ring.txt"
    file.write_text(run("schedule", "show", "all_reduce", "ring").stdout)
    done = run("schedule", action, "all_reduce", "--file", str(file), "--ranks", str(given))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"schedules are for 4 ranks, {given} were given: --ranks 4;" in done.stderr


def test_a_text_for_other_ranks_than_were_started_says_how_many(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text(run("schedule", "show", "all_reduce", "ring").stdout)
    for command in (["schedule", "run", "all_reduce"], ["tune", "all_reduce"]):
        done = run(*command, "--file", str(file), RANK="0", WORLD_SIZE="3")
        assert (done.returncode, done.stdout) == (2, "")
        assert "are for 4 ranks, 3 were started by RANK and WORLD_SIZE: start 4" in done.stderr


def test_schedules_and_proofs_are_there_as_json(tmp_path):
    shown = json.loads(
        run("schedule", "show", "broadcast", "chain", "--ranks", "2", "--json").stdout
    )
    assert [s["steps"] for s in shown["schedules"]] == [
        [{"step": "send", "peer": 1, "from": [0, 1]}],
        [{"step": "recv", "peer": 0, "to": [0, 1]}],
    ]
    proof = json.loads(run("schedule", "verify", "broadcast", "chain", "--json").stdout)
    assert (proof["proved"], proof["ranks"], proof["steps"], proof["rounds"]) == (True, 4, 6, 3)
    file = tmp_path / "chain.txt"
    file.write_text(run("schedule", "show", "broadcast", "chain").stdout)
    refuted = run("schedule", "verify", "broadcast", "--file", str(file), "--root", "1", "--json")
    assert refuted.returncode == 1
    told = json.loads(refuted.stdout)
    assert not told["proved"]
    assert told["counterexample"].startswith("rank ")


EXAMPLE = ROOT / "collectives" / "examples" / "two_rings.py"


def test_the_documented_program_makes_a_new_algorithm():
    """What tools/schedule/README.md shows: 15 lines of Python, then the shell's lines."""
    readme = (ROOT / "tools" / "schedule" / "README.md").read_text()
    program = re.search(r"```python\n(.*?)```", readme, re.DOTALL)[1]
    assert program == EXAMPLE.read_text()
    assert len([line for line in program.splitlines() if line.strip()]) <= 15
    shell = re.search(r"```\n(python3 two_rings.py.*?)```", readme, re.DOTALL)[1]
    outputs = []
    for line in shell.splitlines():
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line.partition("#")[0]],
            cwd=EXAMPLE.parent,
            env=environment(
                PATH=f"{BINARY.parent}:{os.environ['PATH']}", PYTHONDONTWRITEBYTECODE="1"
            ),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, (line, done.stderr)
        outputs.append(done.stdout)
    proof, cost, drawing, measured = outputs
    assert proof == "proved: 5 ranks, 160 steps, 8 rounds\n"
    assert proof in readme
    assert "all_reduce by a text, 5 ranks" in cost
    assert drawing.splitlines()[1].startswith("0      [0] +> 1")
    assert re.search(r" schedules +1  shm$", measured, re.MULTILINE)
    assert "# Out of bounds values : 0 OK" in measured


def test_the_documented_program_is_no_row_of_the_table():
    text = subprocess.run(
        [sys.executable, EXAMPLE], capture_output=True, text=True, check=True
    ).stdout
    rows = json.loads(run("algorithms", "all_reduce", "--json").stdout)["algorithms"]
    shown = [run("schedule", "show", "all_reduce", row["name"], "--ranks", "5") for row in rows]
    assert any("chunks 10" in one.stdout for one in shown)  # bidirectional_ring, another text
    assert all(one.stdout != text for one in shown)

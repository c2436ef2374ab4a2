"""Every command line in the documents of the tools is one that `ringwood` takes."""

import re

import pytest
from ringwood_command import ROOT, run

TOOLS = ROOT / "tools"
DOCUMENTS = sorted(TOOLS.glob("*/*.md"), key=lambda page: page.parent.name == "guide")
DOCUMENTS.insert(0, TOOLS / "README.md")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def names(document) -> str:
    return str(document.relative_to(TOOLS))


def command_lines(text: str) -> list[str]:
    """Those in its blocks, without the words beside them that say what they do."""
    found = []
    for block in FENCE.finditer(text):
        lines = block[2].splitlines()
        # Beside a prompt the rest is what was printed.
        typed = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")] or lines
        bare = [re.split(r"\s{2,}", line.strip())[0] for line in typed]
        found += [line for line in bare if re.search(r"(^|\s)ringwood ", line)]
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=names)
def test_fences_stand_alone(document):
    fences = [line for line in document.read_text().splitlines() if "```" in line]
    assert [line for line in fences if not re.fullmatch(r"```\w*", line)] == []
    assert len(fences) % 2 == 0
    # What opens a block may name a language, what closes it may not.
    assert set(fences[1::2]) <= {"```"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=names)
def test_command_lines_parse(document, tmp_path):
    lines = command_lines(document.read_text())
    (tmp_path / "lines").write_text("\n".join(lines))
    checked = run("man", "--check-lines", str(tmp_path / "lines"))
    assert checked.returncode == 0, checked.stdout
    started = [line for line in lines if not line.startswith("#")]
    assert len(checked.stdout.splitlines()) >= len(started)


def test_the_documents_are_full_of_them():
    counts = [len(command_lines(document.read_text())) for document in DOCUMENTS]
    pages = [document for document in DOCUMENTS if document.parent.name != "guide"]
    assert all(counts[: len(pages)]) and sum(counts) > 95, counts


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("mpirun -n 2 ringwood perf all_reduce --ladder", "takes the place"),
        ("$ ringwood perf --ladder --min-busbw 40 > out", "has no use for --min-busbw"),
        ("cat x | ringwood schedule run all_reduce", "give either an algorithm"),
        ("ringwood matrix --nonesuch", "--nonesuch"),
        ("ringwood doctor --nonesuch; ls", "--nonesuch"),
        ("ringwood schedule run all_reduce ring --ranks 4", ""),
        ("ringwood perf all_reduce --json out.json   # for programs", ""),
    ],
)
def test_what_would_be_refused_is_told(line, why, tmp_path):
    (tmp_path / "lines").write_text(f"\n{line}\n")
    checked = run("man", "--check-lines", str(tmp_path / "lines"))
    assert checked.returncode == (1 if why else 0)
    (told,) = checked.stdout.splitlines()
    assert told.startswith("2: ") and why in told
    assert ("parses" in told) == (not why)

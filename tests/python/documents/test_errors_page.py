"""tools/guide/errors.md: the words that it quotes are those of the sources."""

import re

import pytest
from processes import ROOT

PAGE = ROOT / "tools" / "guide" / "errors.md"
SOURCES = [
    file
    for folder in ("transports", "collectives", "torch-bridge")
    for pattern in ("*.cc", "*.h", "*.py")
    for file in (ROOT / folder).rglob(pattern)
]
# A string, or several that stand side by side; in C++ and in Python.
LITERAL = re.compile(r'f?"(?:[^"\\\n]|\\.)*"(?:\s+f?"(?:[^"\\\n]|\\.)*")*')
PLACE = "\0"


def quotes(page: str) -> list[str]:
    """Those of the page, each on one line."""
    blocks = re.findall(r"(?:^> .*\n)+", page, re.MULTILINE)
    return [" ".join(line[2:] for line in block.splitlines()) for block in blocks]


def texts(source: str) -> list[str]:
    """What a source may print, with PLACE for each value."""
    joined = (
        "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', found)) for found in LITERAL.findall(source)
    )
    return [re.sub(r"\{[^{}]*\}", PLACE, text) for text in joined]


def everything() -> str:
    return "\n".join(text for file in SOURCES for text in texts(file.read_text()))


@pytest.fixture(scope="module")
def printed() -> str:
    return everything()


@pytest.mark.parametrize("quote", quotes(PAGE.read_text()))
def test_a_quote_is_in_the_sources(quote, printed):
    assert quote.replace("...", PLACE).strip(PLACE) in printed


def test_what_is_in_no_source_is_noticed(printed):
    assert "cannot reach the shop at" not in printed
    code = 'fmt::format("a {} b "\n   "c {:.1f} d", "e")'
    assert texts(code) == [f"a {PLACE} b c {PLACE} d", "e"]


def test_ten_errors_each_with_cause_and_remedy():
    sections = PAGE.read_text().split("\n## ")[1:]
    assert [int(section.partition(".")[0]) for section in sections] == list(range(1, 11))
    for section in sections:
        assert len(quotes(section)) == 1
        order = [section.index(word) for word in ("> ", "**Cause.**", "**Remedy.**")]
        assert order == sorted(order)

"""The house rule on words: one word for one thing, the one of the glossary. `tools/lint` runs it.

    tools/glossary.py FILE...    every file of the repository

The glossary is the table with the column `not` in collectives/README.md: words that are not used
for what the row means. Each is looked for in code and comments, as a word or a part of a name
(`oar` in `oar_bytes` and `OarBytes`, not in `roar`); with a `*` it is the beginning of a name.
Where a word means something else in some folders, `(in FOLDER/ ...)` or `(but FOLDER/ ...)` after
it says where it is looked for.
"""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

GLOSSARY = "collectives/README.md"
HEADING = re.compile(r"^\| word \| means \| not \|$", re.MULTILINE)
ENTRY = re.compile(r"`([\w*]+)`(?: \((in|but) ([^)]*)\))?")
NAME = re.compile(r"\w+")
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


@dataclass(frozen=True)
class Banned:
    word: str  # in small letters, but for one with a `*`
    instead: str
    inside: tuple[str, ...] = ("",)
    outside: tuple[str, ...] = ()

    def looked_for_in(self, file: str) -> bool:
        return file.startswith(self.inside) and not file.startswith(self.outside)


def banned_words(readme: str) -> list[Banned]:
    """The words of the glossary's last column. Raises ValueError where there is no such table."""
    heading = HEADING.search(readme)
    if not heading:
        raise ValueError(f"{GLOSSARY} has no table | word | means | not |")
    found = []
    for line in readme[heading.end() :].lstrip("\n").splitlines()[1:]:
        if not line.startswith("|"):
            break
        word, _, others = (cell.strip() for cell in line.strip("|").split("|"))
        for other, where, folders in ENTRY.findall(others):
            places = tuple(folders.split())
            scope = {"in": {"inside": places}, "but": {"outside": places}}.get(where, {})
            found.append(Banned(other if "*" in other else other.lower(), word, **scope))
    return found


def remarks(file: str, text: str, banned: list[Banned]) -> Iterable[str]:
    """The file's words that the glossary says otherwise, with their lines."""
    here = [b for b in banned if b.looked_for_in(file)]
    words = {b.word: b for b in here if "*" not in b.word}
    beginnings = [b for b in here if "*" in b.word]
    for number, line in enumerate(text.splitlines(), 1):
        for name in NAME.findall(line):
            parts = {name.lower(), *(part.lower() for part in PART.findall(name))}
            hits = [words[part] for part in parts if part in words]
            hits += [b for b in beginnings if re.match(b.word.replace("*", "[A-Z]"), name)]
            for hit in hits:
                yield f"{file}:{number}: {name}: the word is {hit.instead}"


def main(files: list[str]) -> int:
    banned = banned_words(Path(GLOSSARY).read_text())
    said = False
    for file in files:
        if file == GLOSSARY or Path(file).suffix not in (".h", ".cc", ".py", ".md", ".build"):
            continue
        for remark in remarks(file, Path(file).read_text(), banned):
            print(remark)
            said = True
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

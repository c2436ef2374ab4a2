"""The house rule on the size of classes: at most 30 members. `tools/lint` runs it.

    tools/class_sizes.py FILE...    every header and source that the rule is for

Counted are the members that a class or struct declares itself: each object and constant, each
function (every overload, constructors and the destructor too) and each nested type or alias. Not
counted: deleted functions; overriding ones, because the interface has declared them; friends; and
what is in a nested type, which is counted as that type's.

The parser knows as much of C++ as it takes to tell these apart. It reads what the preprocessor may
leave out as well, so brackets have to match there too.
"""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MOST = 30

TOKEN = re.compile(
    r"""
      (?P<blank>\s+ | //[^\n]* | /\*.*?\*/ | ^[ \t]*\#(?:\\\n|[^\n])*)
    | (?P<raw>R"(?P<end>[^(\s]*)\(.*?\)(?P=end)")
    | (?P<text>"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*')
    | (?P<number>\.?\d(?:[eEpP][+-]|'\w|[\w.])*)
    | (?P<word>\w+)
    | (?P<sign>::|->|\.\.\.|\[\[|.)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
PAIRS = {"(": ")", "[": "]", "[[": "]", "{": "}"}
TYPES = ("class", "struct", "union", "enum")
NOT_FUNCTIONS = ("alignas", "decltype", "noexcept", "explicit", "requires", "__attribute__")


@dataclass
class Token:
    text: str
    line: int

    @property
    def is_name(self) -> bool:
        return self.text[0].isalpha() or self.text[0] == "_"


@dataclass
class Size:
    """A class and the number of its members."""

    name: str
    file: str
    line: int
    members: int


def tokens_of(source: str) -> list[Token]:
    found, line = [], 1
    for match in TOKEN.finditer(source):
        if match.lastgroup != "blank":
            found.append(Token(match.group(), line))
        line += match.group().count("\n")
    return found


class Reader:
    """Finds the classes of one file and counts their members."""

    def __init__(self, source: str, file: str) -> None:
        self.file = file
        self.tokens = tokens_of(source)
        self.sizes: list[Size] = []

    def text(self, at: int) -> str:
        return self.tokens[at].text if at < len(self.tokens) else ""

    def past_group(self, at: int) -> int:
        """The place after the bracket that closes the one here."""
        waiting = []
        first = at
        while at < len(self.tokens):
            text = self.tokens[at].text
            if text in PAIRS:
                waiting += [PAIRS[text]] * (2 if text == "[[" else 1)
            elif waiting and text == waiting[-1]:
                waiting.pop()
            elif text in PAIRS.values():
                break
            at += 1
            if not waiting:
                return at
        raise ValueError(f"{self.file}:{self.tokens[first].line}: the brackets do not match")

    def past_angles(self, at: int) -> int:
        """The place after the list of template arguments that begins here; the same place if this
        is a comparison or a shift."""
        depth, here = 0, at
        while here < len(self.tokens) and self.text(here) not in (";", "{", "}", ")", "]"):
            text = self.text(here)
            if text in PAIRS:
                here = self.past_group(here)
                continue
            depth += (text == "<") - (text == ">")
            here += 1
            if depth == 0:
                return here
        return at

    def type_body(self, at: int) -> tuple[str, int] | None:
        """The name and the opening brace of the type that is defined by the keyword here."""
        name, here = "", at + 1
        while self.text(here) in ("class", "struct"):  # of an enumeration
            here += 1
        while here < len(self.tokens):
            text = self.text(here)
            if text == "{":
                return name, here
            if text in ("[", "[[") or (text == "(" and self.text(here - 1) == "alignas"):
                here = self.past_group(here)
                continue
            if text == "<":
                past = self.past_angles(here)
                if past == here:
                    return None
                here = past
                continue
            if text == ":":
                while self.text(here) not in ("{", ";"):
                    here += 1
                return (name, here) if self.text(here) == "{" else None
            if text not in ("::", "final", "alignas") and not self.tokens[here].is_name:
                return None
            if text not in ("final", "alignas"):
                name = name + text if "::" in (text, self.text(here - 1)) else text
            here += 1
        return None

    def read(self, at: int = 0, end: int | None = None, outer: str = "") -> None:
        """Looks for classes in whatever stands between two places."""
        end = len(self.tokens) if end is None else end
        while at < end:
            at = self.read_type(at, outer) or at + 1

    def read_type(self, at: int, outer: str) -> int | None:
        """If a type is defined here: counts its members if it has any, and is past its body."""
        text = self.text(at)
        if text not in TYPES or self.text(at - 1) in ("<", ",", "friend", "typename", "enum"):
            return None
        found = self.type_body(at)
        if not found:
            return None
        name, brace = found
        past = self.past_group(brace)
        name = f"{outer}::{name}" if outer else name
        if text in ("class", "struct"):
            members = self.count(brace + 1, past - 1, name)
            self.sizes.append(Size(name, self.file, self.tokens[at].line, members))
        return past

    def count(self, at: int, end: int, name: str) -> int:
        members = 0
        while at < end:
            past, found = self.member(at, name)
            members += found
            at = past
        return members

    def member(self, at: int, name: str) -> tuple[int, int]:
        """The place after one member's declaration, and how many members it declares."""
        while True:
            text = self.text(at)
            if text in ("public", "protected", "private"):
                at += 2
            elif text in ("[", "[["):
                at = self.past_group(at)
            elif text == "template":
                at = self.past_angles(at + 1)
            else:
                break
        if text in (";", "}"):  # after a function's body, or none is left
            return at + (text == ";"), 0
        if text in ("static_assert", "typedef", "using"):
            named = text == "typedef" or self.text(at + 2) == "="
            return self.past_semicolon(at), int(named and text != "static_assert")
        past = self.read_type(at, name) if text in TYPES else None
        if past is not None:
            past, objects = self.declarators(past)
            return past, 1 + objects
        return self.function(at, name) or self.declarators(at)

    def past_semicolon(self, at: int) -> int:
        while self.text(at) != ";":
            at = self.past_group(at) if self.text(at) in PAIRS else at + 1
        return at + 1

    def declarators(self, at: int) -> tuple[int, int]:
        """The place after a declaration of data, and how many it declares."""
        found, named = 0, False
        while True:
            text = self.text(at)
            if text in (",", ";"):
                found += named
                if text == ";":
                    return at + 1, found
                named, at = False, at + 1
            elif text in PAIRS:
                at = self.past_group(at)
            elif text == "<":
                past = self.past_angles(at)
                at = past if past > at else at + 1
            else:
                named = named or self.tokens[at].is_name
                at += 1

    def parameters(self, at: int) -> int | None:
        """The opening bracket of the parameters, if a function is declared here."""
        while True:
            text = self.text(at)
            if text == "operator":
                at += 1
                while self.text(at) != "(":
                    at += 1
                return at + 2 if self.text(at + 1) == ")" and self.text(at + 2) == "(" else at
            if text == "(":
                if self.text(at - 1) not in NOT_FUNCTIONS:
                    return at if self.text(at + 1) not in ("*", "&") else None
                at = self.past_group(at)
            elif text in ("[", "[["):
                at = self.past_group(at)
            elif text == "<":
                at = self.past_angles(at)
            elif text in (";", "=", "{", ":", ","):
                return None
            else:
                at += 1

    def function(self, first: int, name: str) -> tuple[int, int] | None:
        """The place after the function that is declared here, and 1 if it counts."""
        opening = self.parameters(first)
        if opening is None:
            return None
        at = self.past_group(opening)
        after = []
        while self.text(at) not in (";", "{", ":"):
            after.append(self.text(at))
            at = self.past_group(at) if self.text(at) in PAIRS else at + 1
        if self.text(at) == ":":
            at = self.past_initializers(at + 1)
        past = at + 1 if self.text(at) == ";" else self.past_group(at)
        self.read(opening, past, name)  # a type may be local to it
        deleted = after[-2:] == ["=", "delete"]
        counts = not deleted and "override" not in after and self.text(first) != "friend"
        return past, int(counts)

    def past_initializers(self, at: int) -> int:
        """The brace of a constructor's body; here is the first of its initializers."""
        while True:
            while self.text(at) not in ("(", "{"):
                at = self.past_angles(at) if self.text(at) == "<" else at + 1
            at = self.past_group(at)
            if self.text(at) == "...":
                at += 1
            if self.text(at) == "{":
                return at
            at += 1


def sizes_of(source: str, file: str) -> list[Size]:
    """Every class and struct that the file defines, nested and local ones included."""
    reader = Reader(source, file)
    reader.read()
    return sorted(reader.sizes, key=lambda size: size.line)


def findings(sizes: Iterable[Size]) -> list[str]:
    """What is against the rule, a sentence each."""
    return [
        f"{size.file}:{size.line}: {size.name} has {size.members} members, more than {MOST}"
        for size in sizes
        if size.members > MOST
    ]


def main(files: list[str]) -> int:
    found = findings(s for f in files for s in sizes_of(Path(f).read_text(), f))
    print("\n".join(found), end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

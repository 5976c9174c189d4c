"""The pages of `docs/papers`, and what the code cites of the papers.

The form of a citation is defined in `docs/papers/README.md`; this module reads it.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "papers"
CODE = ("src", "tests", "bench")

ITEM = r"(?:equation|Figure|Table|Algorithm) (?:\d+|[IVX]+)\b|Figures \d+ to \d+"
SECTION = {
    "roman": r"[IVX]+(?:\.[A-Z](?:\.\d+)?)?\b",
    "arabic": r"\d+(?:\.\d+){0,2}(?![\d%])",
    "heading": r"\"[A-Z][A-Za-z &]+\"",
}
LOOSE = re.compile(
    r"\b(?:[Ee]q\.|[Ee]quations?|[Ff]igures?|Figs?\.|[Tt]ables?|Algorithm|[Ss]ections?)"
    r" (?:\d|[IVX]+\b)"
)


@dataclass
class Row:
    """A line of a paper's table: where in the paper, and where in Tocsin."""

    places: list[str]
    modules: list[str]
    tests: list[str]
    experiments: list[str]


@dataclass
class Paper:
    name: str  # as it is cited
    page: Path
    numbering: str  # of its sections
    rows: list[Row] = field(default_factory=list)

    @property
    def places(self) -> set[str]:
        """What may be cited: all places of the table, and the sections around them."""
        named = {place for row in self.rows for place in row.places}
        parts = [place.split(".") for place in named if " " not in place]
        around = {".".join(p[:n]) for p in parts for n in range(1, len(p))}
        return named | around

    @property
    def place(self) -> str:
        return rf"(?:{ITEM}|{SECTION[self.numbering]})"


def papers() -> list[Paper]:
    return [_read(page) for page in sorted(PAGES.glob("*.md")) if page.name != "README.md"]


def _read(page: Path) -> Paper:
    text = page.read_text()
    heading = re.match(r"# (\w+): ", text)
    assert heading, f"{page.name} begins with '# NAME: title'"
    numbering = re.search(r"^Sections are numbered in (roman|arabic)\.$", text, re.MULTILINE)
    paper = Paper(heading[1], page, numbering[1] if numbering else "heading")
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 5 and cells[0] not in ("place", "---"):
            paper.rows.append(
                Row([part.strip() for part in cells[0].split(";")], *map(_spans, cells[2:]))
            )
    return paper


def _spans(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def citations(text: str, known: Iterable[Paper]) -> tuple[list[tuple[Paper, str]], str]:
    """What the text cites, and the text without it."""
    cited: list[tuple[Paper, str]] = []
    rest = " ".join(text.split())
    for paper in known:
        pattern = re.compile(rf"\b{paper.name},? {paper.place}(?:(?:,|;| and) {paper.place})*")
        for match in pattern.finditer(rest):
            places = re.findall(paper.place, match[0].removeprefix(paper.name))
            cited += [(paper, each) for place in places for each in _single(place)]
        rest = pattern.sub("", rest)
    return cited, rest


def _single(place: str) -> list[str]:
    several = re.fullmatch(r"Figures (\d+) to (\d+)", place)
    if several:
        return [f"Figure {number}" for number in range(int(several[1]), int(several[2]) + 1)]
    return [place]


def code_files() -> Iterator[Path]:
    for directory in CODE:
        yield from sorted((ROOT / directory).rglob("*.py"))


@cache
def prose(path: Path) -> tuple[tuple[int, str], ...]:
    """Docstrings and comments, each with its line; comments on consecutive lines are one."""
    return tuple(_prose(path.read_text()))


def _prose(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.lineno, str(node.value.value)
    first = last = 0
    text = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line, words = token.start[0], token.string.lstrip("# ")
            if line != last + 1:
                yield first, text
                first, text = line, ""
            last, text = line, f"{text} {words}"
    yield first, text


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Every string of the code, docstrings too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value

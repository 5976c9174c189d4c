"""The page about filters: every condition it shows is one, every canonical form is that."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tocsin.model import Column, Dataset
from tocsin.overlay.filters import as_text
from tocsin.sql import parse_filter

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "filters.md").read_text()
REPORTS = Dataset(
    "reports",
    (
        Column("kind", "STRING"),
        Column("level", "INT"),
        Column("price", "DECIMAL(8,2)"),
        Column("place", "STRING"),
        Column("note", "ARRAY<STRING>"),
        Column("lat", "DOUBLE"),
        Column("lon", "DOUBLE"),
    ),
)


def rows(heading: str) -> list[tuple[list[str], list[str]]]:
    """The code of both columns of the table below a heading."""
    table = PAGE[PAGE.index(heading) :].split("\n\n")[0]
    cells = [line.split(" | ", 1) for line in table.splitlines()[2:]]
    return [(re.findall("`(.+?)`", one), re.findall("`(.+?)`", other)) for one, other in cells]


CONDITIONS = [
    text for left, _ in rows("| condition |") for text in left if " " in text or "(" in text
]
FORMS = [(left[0], right[0]) for left, right in rows("| you write |")]


@pytest.mark.parametrize("text", CONDITIONS)
def test_a_condition_of_the_page_is_one(text: str) -> None:
    parse_filter(text, REPORTS)


@pytest.mark.parametrize(("text", "canonical"), FORMS)
def test_a_canonical_form_of_the_page_is_that(text: str, canonical: str) -> None:
    assert as_text(parse_filter(text, REPORTS)) == canonical


def test_the_page_shows_every_kind_of_condition() -> None:
    assert len(CONDITIONS) == 11
    assert len(FORMS) == 7

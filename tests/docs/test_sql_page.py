"""The SQL page lists every function that queries may call, and why others are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tocsin.spark.adhoc import MOST_BYTES, MOST_ROWS
from tocsin.spark.channels import plain_query
from tocsin.spark.channels.allowed_functions import CLOCK, REFUSED, THEMES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "sql.md").read_text()
ALLOWED = PAGE[PAGE.index("## What queries may hold") :]


def names_in(line: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", line))


@pytest.mark.parametrize("theme", [theme for theme in THEMES if theme != "operators"])
def test_allowed_functions_are_listed(theme: str) -> None:
    (line,) = (each for each in ALLOWED.splitlines() if each.startswith(f"| {theme} |"))
    assert names_in(line) == set(THEMES[theme])


def test_refused_functions_are_listed_with_their_reason() -> None:
    rows = ALLOWED[ALLOWED.index("| refused | why |") :].splitlines()[2:]
    listed = {name: row.split("|")[2].strip() for row in rows for name in names_in(row)}
    assert listed == dict(REFUSED)


def test_the_clock_and_the_limits_are_told() -> None:
    line = next(each for each in ALLOWED.splitlines() if each.startswith("Ad hoc queries may ask"))
    assert names_in(line) == CLOCK
    assert f"{MOST_ROWS:,} rows and {MOST_BYTES // 1024**2} MB" in PAGE


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md", "docs/reference/sql.md"])
def test_queries_on_our_pages_are_accepted(page: str) -> None:
    """Those that stand alone; channels' are created by the pages' own tests."""
    shown = re.findall(r"^(?:SELECT|WITH)\b[^;…]*;", (ROOT / page).read_text(), re.M)
    for query in shown:
        plain_query(query)

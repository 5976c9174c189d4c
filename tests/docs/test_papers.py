"""Papers are findable: the tables name what exists, and what code cites stands in a table."""

from __future__ import annotations

import re

import pytest
from typer.main import get_command

from docs.papers import (
    LOOSE,
    PAGES,
    ROOT,
    Paper,
    citations,
    code_files,
    papers,
    prose,
    strings,
)
from tocsin.cli import app
from tocsin.errors import NotFound
from tocsin.lab.experiments import experiments_named

PAPERS = papers()


@pytest.fixture(params=PAPERS, ids=lambda paper: paper.name)
def paper(request: pytest.FixtureRequest) -> Paper:
    return request.param  # type: ignore[no-any-return]


def test_the_readme_lists_every_page() -> None:
    listed = re.findall(r"\[(\w+)\]\((\w+\.md)\)", (PAGES / "README.md").read_text())
    assert listed == [(paper.name, paper.page.name) for paper in PAPERS]


def test_every_page_has_a_summary_readings_and_a_table(paper: Paper) -> None:
    headings = re.findall(r"^## (.*)$", paper.page.read_text(), re.MULTILINE)
    assert headings == ["What it says", "Misprints and open points", "Where it is"]
    assert paper.rows


def test_every_module_of_the_tables_exists(paper: Paper) -> None:
    lacking = [
        name
        for row in paper.rows
        for name in row.modules
        if not (ROOT / "src" / "tocsin" / name).exists()
    ]
    assert not lacking, f"{paper.page.name} names modules that are not in src/tocsin"


def test_every_place_has_a_module_and_a_test(paper: Paper) -> None:
    for row in paper.rows:
        assert row.modules, f"{row.places} has no module"
        assert row.tests, f"{row.places} has no test"


def test_every_test_of_the_tables_exists(paper: Paper) -> None:
    lacking = [name for row in paper.rows for name in row.tests if not _is_test(name)]
    assert not lacking, f"{paper.page.name} names tests that are not in tests"


def test_every_experiment_of_the_tables_can_be_run(paper: Paper) -> None:
    lacking = [name for row in paper.rows for name in row.experiments if not _can_be_run(name)]
    assert not lacking, f"{paper.page.name} names experiments that are not there"


def test_no_place_stands_in_two_rows(paper: Paper) -> None:
    places = [place for row in paper.rows for place in row.places]
    assert len(places) == len(set(places))


def test_what_code_and_documentation_cite_stands_in_the_papers_table() -> None:
    texts = [(path, text) for path in code_files() for _, text in (*strings(path), *prose(path))]
    texts += [(path, path.read_text()) for path in (ROOT / "docs").rglob("*.md")]
    unknown = {
        f"{path.relative_to(ROOT)}: {paper.name} {place}"
        for path, text in texts
        for paper, place in citations(text, PAPERS)[0]
        if place not in paper.places
    }
    assert not unknown, "cited, and in no table of docs/papers"


def test_code_names_the_paper_of_every_equation_figure_and_table() -> None:
    loose = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]}"
        for path in code_files()
        for line, text in prose(path)
        for match in LOOSE.finditer(citations(text, PAPERS)[1])
    ]
    assert not loose, "whose? write it as docs/papers/README.md says"


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("min f (BAD IV.A.2, equation 4).", ["BAD IV.A.2", "BAD equation 4"]),
        ("as in survival 4, 5 and 6", ["survival 4", "survival 5", "survival 6"]),
        ("(overlay, Figures 3 to 5)", ["overlay Figure 3", "overlay Figure 4", "overlay Figure 5"]),
        ('(kafka, "Data Flow")', ['kafka "Data Flow"']),
        ("delivery 2.2.1; kafka, Figure 8", ["delivery 2.2.1", "kafka Figure 8"]),
        ("delivery of 2 records", []),
    ],
)
def test_a_citation_is_read(text: str, cited: list[str]) -> None:
    read, rest = citations(text, PAPERS)
    assert sorted(f"{paper.name} {place}" for paper, place in read) == sorted(cited)
    assert not LOOSE.search(rest)


def test_an_equation_without_its_paper_is_noticed() -> None:
    assert LOOSE.search(citations("T_i of equation 7", PAPERS)[1])


def _is_test(name: str) -> bool:
    file, _, function = name.partition("::")
    path = ROOT / "tests" / file
    return path.is_file() and (not function or f"def {function}(" in path.read_text())


def _can_be_run(name: str) -> bool:
    """An experiment of the lab, or another command."""
    if name.startswith("tocsin "):
        command: object = get_command(app)
        for word in name.split()[1:]:
            command = getattr(command, "commands", {}).get(word)
        return command is not None
    try:
        return bool(experiments_named(name))
    except NotFound:
        return False

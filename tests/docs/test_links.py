"""Nothing in the repository points to a file that is not in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.papers import ROOT, code_files, prose

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
MENTION = re.compile(r"\b(?:docs|tests|src|scripts|bench)/[\w/.-]+\.(?:md|py|svg|toml)\b")


PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md")]
)


def _without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", _without_code(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(_without_code(page.read_text())):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), f"{link}: there is no such file"
        if anchor and target.suffix == ".md":
            assert anchor in _anchors(target), f"{link}: there is no such heading"


def test_every_file_that_pages_and_comments_name_exists() -> None:
    texts = [(page, page.read_text()) for page in PAGES if page.name != "CHANGELOG.md"]
    texts += [(path, text) for path in code_files() for _, text in prose(path)]
    lacking = {
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in texts
        for name in MENTION.findall(text)
        if not (ROOT / name).exists()
    }
    assert not lacking

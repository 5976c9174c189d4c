"""ARCHITECTURE.md names what exists, and its pictures are what the code gives."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.papers import ROOT

PAGE = (ROOT / "ARCHITECTURE.md").read_text()
SOURCE = ROOT / "src" / "tocsin"
LINES = re.compile(r"([\d,]+) lines")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pictures")
    command = [sys.executable, str(ROOT / "scripts" / "architecture.py"), str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return directory


@pytest.mark.parametrize("name", ["tree.svg", "publication.svg"])
def test_pictures_are_what_the_code_gives(name: str, drawn: Path) -> None:
    kept = (ROOT / "docs" / "pictures" / name).read_text()
    anew = (drawn / name).read_text()
    stale = "draw it anew: python scripts/architecture.py"
    assert LINES.sub("lines", kept) == LINES.sub("lines", anew), stale
    for before, now in zip(_counts(kept), _counts(anew), strict=True):
        assert abs(now - before) <= max(500, before / 5), stale


@pytest.mark.parametrize("name", ["tree.svg", "publication.svg"])
def test_the_page_shows_the_picture(name: str) -> None:
    assert f"](docs/pictures/{name})" in PAGE


def test_every_path_that_the_page_names_exists() -> None:
    lacking = [path for path in _paths(PAGE) if not _exists(path)]
    assert not lacking


def _counts(picture: str) -> list[int]:
    return [int(count.replace(",", "")) for count in LINES.findall(picture)]


def _paths(text: str) -> list[str]:
    """Code spans with a slash that are no commands, addresses or metrics."""
    spans = re.findall(r"`([\w./-]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    return [span for span in spans if "/" in span and not span.startswith("/")]


def _exists(path: str) -> bool:
    return any((base / path).exists() for base in (SOURCE, ROOT, SOURCE / "lab", ROOT / "docs"))

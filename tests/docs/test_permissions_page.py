"""The page about roles and grants, as printed: what it shows is run over a real system."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.test_tutorial import ROOT, play
from tocsin.cli.services import NOTHING_GRANTED

PAGE = (ROOT / "docs" / "how-to" / "permissions.md").read_text()

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


def test_the_page_works_as_printed(tmp_path: Path) -> None:
    printed = play(PAGE, tmp_path, "ward-data")
    assert printed.count(NOTHING_GRANTED) == 1
    assert f"grants       {NOTHING_GRANTED}" in PAGE

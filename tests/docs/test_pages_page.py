"""The lab's page about caches of pages, as printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.printed import run_as_printed


def test_commands_of_the_page_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(run_as_printed("lab/pages.md", monkeypatch, capsys)) == 4

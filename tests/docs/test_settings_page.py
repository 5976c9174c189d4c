"""The settings page lists every setting as the code has it."""

import re
from pathlib import Path

from tocsin.overlay.topology import read_tree
from tocsin.settings import described

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def test_page_lists_every_setting_with_its_default_bounds_and_meaning() -> None:
    listed = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert listed == [
        f"| `{setting.name}` | `{setting.default}` | {setting.accepts} | {setting.meaning} |"
        for setting in described()
    ]


def test_the_printed_tree_is_one() -> None:
    (printed,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert read_tree(printed).neighbours("south") == ["centre", "harbour"]

"""A terminal sees a bar; a file gets a line at each beginning and end, and now and then between."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from tocsin.cli.progress import Watch


def shown(*, terminal: bool, line_every_s: float) -> str:
    written = StringIO()
    console = Console(file=written, force_terminal=terminal, width=100)
    with Watch(console, line_every_s=line_every_s) as watch:
        watch.begin("starting Spark", 0)
        watch.begin("points", 3)
        for _ in range(3):
            watch.advance(1)
    return written.getvalue()


def test_file_gets_few_lines() -> None:
    assert shown(terminal=False, line_every_s=60).splitlines() == [
        "starting Spark …",
        "points: 3",
        "points: 3 of 3",
    ]


def test_file_gets_a_line_when_one_is_due() -> None:
    assert "points: 1 of 3\npoints: 2 of 3\n" in shown(terminal=False, line_every_s=0)


def test_terminal_sees_how_far_it_is() -> None:
    assert "3/3" in shown(terminal=True, line_every_s=60)

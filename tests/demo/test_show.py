"""How the demo tells what it does: lines where there is no terminal, a live bar where there is."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tocsin.demo import show
from tocsin.demo.show import Glance, Show


def glance(elapsed_s: float, subscriptions: int = 9, hit_ratio: float | None = 0.5) -> Glance:
    return Glance(
        elapsed_s=elapsed_s,
        published=1200,
        displayed=34,
        online=5,
        subscriptions=subscriptions,
        hit_ratio=hit_ratio,
    )


def told_to(terminal: bool) -> tuple[Show, io.StringIO]:
    written = io.StringIO()
    return Show(Console(file=written, force_terminal=terminal, width=120)), written


def test_a_file_gets_the_figures_as_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(show, "LINE_EVERY_S", 0.0)
    showing, written = told_to(terminal=False)
    with showing:
        showing.opening(3500)
        showing.glance(glance(0.0, subscriptions=1750, hit_ratio=None))
        showing.course(60.0, 60.0)
        showing.glance(glance(30.0))
    lines = written.getvalue().splitlines()
    assert "  1,750 of 3,500 subscriptions  published 1,200" in lines[1]
    assert lines[1].endswith("hit ratio -")
    assert lines[3] == "  0:30  published 1,200  delivered 34  online 5  hit ratio 50%"
    assert "\x1b" not in written.getvalue()


def test_a_file_is_not_flooded() -> None:
    showing, written = told_to(terminal=False)
    with showing:
        showing.course(60.0, 60.0)
        for tenth in range(100):
            showing.glance(glance(tenth / 10))
    assert written.getvalue().count("delivered") == 1


def test_a_terminal_shows_the_clock_and_keeps_the_addresses() -> None:
    showing, written = told_to(terminal=True)
    with showing:
        showing.starting()
        showing.service("cluster", "http://127.0.0.1:1")
        showing.course(60.0, 60.0)
        showing.glance(glance(30.0))
        showing.note("quiet: waiting")
        showing.stopping()
    assert "cluster      http://127.0.0.1:1" in written.getvalue()
    assert "the city" in written.getvalue()

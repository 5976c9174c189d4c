"""A machine that breaks a promise about pages is found out: the checker is worth something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tocsin.broker.machine.effects import DropPage, Fail
from tocsin.broker.machine.pages import Pages
from tocsin.testing.simulation import BrokenPromise, PageWorld

Mutant = Callable[..., Any]


def _drops_nothing(right: Mutant) -> Mutant:
    return lambda *args: [effect for effect in right(*args) if not isinstance(effect, DropPage)]


def _tells_no_failure(right: Mutant) -> Mutant:
    return lambda *args: [effect for effect in right(*args) if not isinstance(effect, Fail)]


def _fetches_for_everybody(right: Mutant) -> Mutant:
    def asked(pages: Pages, request: Any, page: str, notification: bool) -> Any:
        pages._coming.pop(page, None)
        return right(pages, request, page, notification)

    return asked


def _ignores(right: Mutant) -> Mutant:
    return lambda *args: []


@pytest.mark.parametrize(
    ("event", "mutant", "broken"),
    [
        ("_forget", _drops_nothing, "does not know|may keep"),
        ("failed", _tells_no_failure, "without an outcome"),
        ("asked", _fetches_for_everybody, "twice at once"),
        ("damaged", _ignores, "again and again"),
        ("left", _ignores, "still holds"),
    ],
)
def test_a_wrong_machine_breaks_a_promise(
    event: str, mutant: Callable[[Mutant], Mutant], broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pages, event, mutant(getattr(Pages, event)))
    with pytest.raises(BrokenPromise, match=broken):
        _run_worlds()


def _run_worlds() -> None:
    for seed in range(30):
        PageWorld(seed).run(60)

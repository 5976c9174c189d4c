"""A worker outlives its errors, and ends when it is stopped."""

from __future__ import annotations

import threading

import pytest

from tocsin.cluster import worker
from tocsin.cluster.worker import Worker

TRIES = 3


class Failing(Worker):
    def __init__(self) -> None:
        super().__init__("failing")
        self.errors: list[str] = []
        self.recovered = threading.Event()

    def _work(self) -> None:
        if len(self.errors) < TRIES:
            raise RuntimeError(f"try {len(self.errors)}")
        self.recovered.set()
        self._stopping.wait()

    def _report(self, error: Exception) -> None:
        self.errors.append(str(error))


def test_it_begins_again_until_the_work_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "RETRY_S", 0.01)
    failing = Failing()
    failing.start()
    assert failing.recovered.wait(10)
    failing.stop()
    assert failing.errors == ["try 0", "try 1", "try 2"]


def test_stopping_ends_the_pause_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "RETRY_S", 60.0)
    failing = Failing()
    failing.start()
    failing.stop()
    assert len(failing.errors) <= 1


def test_one_that_was_never_started_can_be_stopped() -> None:
    Failing().stop()

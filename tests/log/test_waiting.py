"""What waits for a slow disk is bounded: publishers are told to come again, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tocsin.errors import Unavailable
from tocsin.storage.log import PublicationLog, open_log
from tocsin.storage.log.segments import Segments

RECORD = b'{"n":1}'


class SlowMedium(Segments):
    """Shows nothing while it is held."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, segment_bytes=1 << 20)
        self.free = threading.Event()
        self.free.set()
        self.reached = threading.Event()

    def show(self, *given: object, **named: object) -> None:
        self.reached.set()
        self.free.wait(60)
        super().show(*given, **named)  # type: ignore[arg-type]


@contextmanager
def slow_log(directory: Path) -> Iterator[tuple[PublicationLog, SlowMedium]]:
    medium = SlowMedium(directory)
    with PublicationLog(medium, most_waiting_bytes=5000) as log:
        log.open_dataset("reports")
        medium.free.clear()
        try:
            yield log, medium
        finally:
            medium.free.set()


def test_a_log_that_is_behind_refuses_and_takes_again_when_it_has_caught_up(tmp_path: Path) -> None:
    with slow_log(tmp_path) as (log, medium):
        taken = [log.append("reports", [RECORD]) for _ in range(4)]
        with pytest.raises(Unavailable, match="behind"):
            log.append("reports", [RECORD])
        medium.free.set()
        ends = [future.result(30).end for future in taken]
        after = log.append("reports", [RECORD]).result(30)
        assert after.first == ends[-1]


def test_a_request_that_is_larger_than_the_room_is_taken_alone(tmp_path: Path) -> None:
    with slow_log(tmp_path) as (log, medium):
        large = log.append("reports", [RECORD] * 1000)
        with pytest.raises(Unavailable, match="behind"):
            log.append("reports", [RECORD])
        medium.free.set()
        large.result(30)


def test_commands_are_not_refused(tmp_path: Path) -> None:
    with slow_log(tmp_path) as (log, medium):
        log.append("reports", [RECORD] * 1000)
        medium.free.set()
        assert log.roll("reports") > 0


def test_a_log_takes_what_it_always_took(tmp_path: Path) -> None:
    with open_log(tmp_path, segment_bytes=1 << 20) as log:
        log.open_dataset("reports")
        futures = [log.append("reports", [RECORD]) for _ in range(2000)]
        assert len({future.result(30).end for future in futures}) == 2000

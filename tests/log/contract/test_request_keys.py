"""A request that is sent again under its key is in the log once, whatever happened in between."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from log.media import MediumUnderTest, records
from tocsin.errors import InvalidInput
from tocsin.storage.log import Appended, PublicationLog

THREE = [b'{"n":1}', b'{"n":2}', b'{"n":3}']


def append(log: PublicationLog, key: str | None = "5e1f") -> Appended:
    return log.append("reports", THREE, key).result()


def nothing(_: PublicationLog) -> None:
    pass


def roll(log: PublicationLog) -> None:
    log.roll("reports")


def retire_all(log: PublicationLog) -> None:
    log.roll("reports")
    log.retire("reports", log.ends()["reports"])


def retire_behind_others(log: PublicationLog) -> None:
    for n in range(5):
        log.append("reports", [b"{}"], f"other-{n}").result()
        retire_all(log)


MEANWHILE = [nothing, roll, retire_all, retire_behind_others]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_a_repeated_key_is_answered_as_before_and_appends_nothing(
    medium: MediumUnderTest, meanwhile: Callable[[PublicationLog], None], restart: bool
) -> None:
    log = medium.open()
    log.open_dataset("reports")
    first = append(log)
    meanwhile(log)
    if restart:
        log.close()
        log = medium.open()
        log.open_dataset("reports")
    end = log.ends()["reports"]
    again = append(log)
    assert (first.again, again.again) == (False, True)
    assert again[:2] == first[:2]
    assert log.ends()["reports"] == end
    log.close()


def test_without_a_key_or_with_another_every_call_appends(log: PublicationLog) -> None:
    for key in ("a", "b", None, None):
        assert not append(log, key).again
    assert len(records(log)) == 12


@pytest.mark.parametrize("key", ["", 'a"', "a b", "ä", "x" * 65])
def test_what_cannot_be_a_key_is_refused(log: PublicationLog, key: str) -> None:
    with pytest.raises(InvalidInput):
        log.append("reports", THREE, key)
    assert log.ends() == {"reports": 0}


def test_a_key_is_its_datasets_own(log: PublicationLog) -> None:
    log.open_dataset("users")
    for dataset in ("reports", "users"):
        assert not log.append(dataset, THREE, "5e1f").result().again


def test_repeats_that_wait_for_the_same_commit_are_taken_once(
    medium: MediumUnderTest, log: PublicationLog
) -> None:
    with medium.held():
        waiting = [log.append("reports", [b"{}"])]
        waiting += [log.append("reports", THREE, "5e1f") for _ in range(3)]
    assert [future.result(30).again for future in waiting] == [False, False, True, True]
    assert len({future.result()[:2] for future in waiting[1:]}) == 1
    assert len(records(log)) == 4


@pytest.mark.parametrize("restart", [False, True])
def test_a_dropped_dataset_forgets_its_keys(medium: MediumUnderTest, restart: bool) -> None:
    log = medium.open()
    log.open_dataset("reports")
    append(log)
    log.roll("reports")
    log.create_dataset("reports")
    if restart:
        log.close()
        log = medium.open()
        log.open_dataset("reports")
    start = log.ends()["reports"]
    assert not append(log).again
    assert len(records(log, start)) == 3
    log.close()

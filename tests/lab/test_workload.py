"""A workload refuses what no broker could have seen, and survives its files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tocsin.errors import SettingError
from tocsin.lab.workloads.workload import OFFLINE, ONLINE, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, Workload

Event = tuple[float, int, int, int]

GOOD: list[Event] = [
    (0.0, ONLINE, 1, 0),
    (0.0, SUBSCRIBE, 0, 2),
    (1.0, PUBLISH, 2, 10),
    (1.5, SUBSCRIBE, 1, 2),
    (2.0, OFFLINE, 1, 0),
    (3.0, UNSUBSCRIBE, 0, 0),
    (4.0, SUBSCRIBE, 0, 1),
    (5.0, ONLINE, 1, 0),
]


def of(events: list[Event], owners: list[int] | None = None) -> Workload:
    """Two subscribers, three backend subscriptions, two frontend subscriptions."""
    return Workload.of(events, [0, 1] if owners is None else owners, backends=3, subscribers=2)


def test_a_good_one_is_given_back() -> None:
    workload = of(GOOD)
    assert workload.check() is workload
    assert len(workload) == 8
    assert workload.duration_s == 5.0


@pytest.mark.parametrize(
    ("row", "event", "told"),
    [
        (3, (0.5, SUBSCRIBE, 1, 2), "event 3 (subscribe 1 at 0.5 s): its time is before"),
        (3, (float("nan"), SUBSCRIBE, 1, 2), "event 3 (subscribe 1 at nan s): its time"),
        (7, (float("inf"), ONLINE, 1, 0), "event 7 (online 1 at inf s): its time"),
        (2, (1.0, 5, 2, 10), "event 2 (5 2 at 1 s): its kind is unknown"),
        (2, (1.0, -1, 2, 10), "event 2 (-1 2 at 1 s): its kind is unknown"),
        (2, (1.0, PUBLISH, 3, 10), "event 2 (publish 3 at 1 s): its subject does not exist"),
        (2, (1.0, PUBLISH, -1, 10), "event 2 (publish -1 at 1 s): its subject does not exist"),
        (0, (0.0, ONLINE, 2, 0), "event 0 (online 2 at 0 s): its subject does not exist"),
        (4, (2.0, OFFLINE, 2, 0), "event 4 (offline 2 at 2 s): its subject does not exist"),
        (3, (1.5, SUBSCRIBE, 2, 2), "event 3 (subscribe 2 at 1.5 s): its subject does not exist"),
        (5, (3.0, UNSUBSCRIBE, 2, 0), "event 5 (unsubscribe 2 at 3 s): its subject does not"),
        (2, (1.0, PUBLISH, 2, 0), "event 2 (publish 2 at 1 s): its size is not positive"),
        (2, (1.0, PUBLISH, 2, -5), "event 2 (publish 2 at 1 s): its size is not positive"),
        (3, (1.5, SUBSCRIBE, 1, 3), "event 3 (subscribe 1 at 1.5 s): its backend subscription"),
        (3, (1.5, SUBSCRIBE, 1, -1), "event 3 (subscribe 1 at 1.5 s): its backend subscription"),
        (3, (1.5, SUBSCRIBE, 0, 1), "event 3 (subscribe 0 at 1.5 s): its subject is subscribed"),
        (3, (1.5, UNSUBSCRIBE, 1, 0), "event 3 (unsubscribe 1 at 1.5 s): its subject is subs"),
        (3, (1.5, ONLINE, 1, 0), "event 3 (online 1 at 1.5 s): its subject is there already"),
        (4, (2.0, OFFLINE, 0, 0), "event 4 (offline 0 at 2 s): its subject is there already"),
    ],
)
def test_the_first_wrong_event_is_named(row: int, event: Event, told: str) -> None:
    wrong = [*GOOD]
    wrong[row] = event
    with pytest.raises(SettingError) as refused:
        of(wrong).check()
    assert str(refused.value).startswith(told)
    assert refused.value.field == "workload"


def test_of_two_wrong_events_the_first_is_named() -> None:
    wrong = [*GOOD, (5.0, PUBLISH, 0, 0), (5.0, PUBLISH, 1, 0)]
    with pytest.raises(SettingError, match=r"event 8 \(publish 0 at 5 s\)"):
        of(wrong).check()


def test_a_workload_without_events_and_one_with_strangers_are_refused() -> None:
    with pytest.raises(SettingError, match="the workload has no events"):
        of([]).check()
    for owners in ([0, 2], [-1, 1]):
        with pytest.raises(SettingError, match="belongs to no subscriber") as refused:
            of(GOOD, owners).check()
        assert refused.value.field == "owners"


@pytest.mark.parametrize("mmap", [True, False])
def test_it_comes_back_from_its_files(tmp_path: Path, mmap: bool) -> None:
    kept = of(GOOD)
    kept.save(tmp_path / "new" / "day")
    found = Workload.load(tmp_path / "new" / "day", mmap=mmap).check()
    for name in ("at", "kind", "subject", "value", "owners"):
        ours, theirs = getattr(kept, name), getattr(found, name)
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype
        assert isinstance(theirs, np.memmap) == mmap
    assert (found.backends, found.subscribers, found.duration_s) == (3, 2, 5.0)


@pytest.mark.parametrize("name", ["at.npy", "kind.npy", "owners.npy", "workload.json"])
@pytest.mark.parametrize("content", [None, b"", b"nonsense", b"{}", b"[1]"])
def test_a_directory_that_holds_none_is_told(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    of(GOOD).save(tmp_path)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SettingError, match=f"{tmp_path} holds no workload") as refused:
        Workload.load(tmp_path)
    assert refused.value.field == "workload"


def test_a_file_that_was_cut_short_is_told(tmp_path: Path) -> None:
    of(GOOD).save(tmp_path)
    whole = (tmp_path / "at.npy").read_bytes()
    (tmp_path / "at.npy").write_bytes(whole[:-8])
    with pytest.raises(SettingError, match="holds no workload"):
        Workload.load(tmp_path)


def test_files_that_do_not_belong_together_are_told(tmp_path: Path) -> None:
    of(GOOD).save(tmp_path)
    np.save(tmp_path / "subject.npy", np.zeros(3, np.int32))
    with pytest.raises(SettingError, match="columns differ in length"):
        Workload.load(tmp_path).check()

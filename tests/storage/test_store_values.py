"""What goes in comes out, the same on every database; what no database holds is refused."""

from __future__ import annotations

import math

import pytest

from tocsin.dev.mariadb import MariaDB
from tocsin.errors import InvalidInput, NotFound, TooLarge
from tocsin.model import Dataset
from tocsin.storage.store.progress import Progress
from tocsin.storage.store.results import Range
from tocsin.storage.store.runs import Run, RunStart
from tocsin.storage.store.store import Store

from .conftest import furnish

LARGEST, SMALLEST = 2**63 - 1, -(2**63)
NAMES = [
    "Zoo",
    "a",
    "a ",
    " a",
    "A",
    "á",
    "a\u0301",
    "ä",
    "ss",
    "ß",
    "a\tb",
    "Ꭰ",
    "%",
    "_",
    "'; DROP TABLE runs; --",
    "\\",
    "\\'",
    '"',
    ":name",
    "%(name)s",
    "\U0001f514",  # a bell: four bytes
    "\U0001f514" * 190,
    "\uffff",
]
HOSTILE = ["nul\0", "\0", "half \ud83d of a pair"]


def test_names_differ_by_every_character_and_sort_by_code_point(store: Store) -> None:
    for name in NAMES:
        store.catalog.create_dataset(Dataset(name, ()))
    assert [dataset.name for dataset in store.catalog.datasets()] == sorted(NAMES)
    for name in NAMES:
        assert store.catalog.dataset(name).name == name
    with pytest.raises(NotFound):
        store.catalog.dataset("\U0001f514" * 191)  # not cut to one that is there
    store.catalog.drop_dataset("a ")
    assert store.catalog.dataset("a").name == "a"


def test_a_subscriber_and_arguments_of_any_text_come_back(city: Store) -> None:
    for name in NAMES:
        made, created = city.subscriptions.subscribe(name, "by_type", {name: name}, "north")
        assert created
        assert city.subscriptions.of_subscriber(name) == [made]
    kept = [arguments for _, arguments in city.subscriptions.parameter_sets("by_type")]
    assert kept == [{name: name} for name in NAMES]


def test_control_characters_in_arguments_are_kept(city: Store) -> None:
    for text in ("\0", "a\0b", "\x01\x1f\x7f"):
        made, _ = city.subscriptions.subscribe("alice", "by_type", {"type": text}, "north")
        assert city.subscriptions.get(made.id).backend.arguments == {"type": text}


@pytest.mark.parametrize("name", HOSTILE)
def test_text_that_not_every_database_holds_is_refused_by_all(city: Store, name: str) -> None:
    for call in (
        lambda: city.catalog.create_dataset(Dataset(name, ())),
        lambda: city.catalog.put_broker(name, "http://x"),
        lambda: city.catalog.put_broker("north", f"http://{name}"),
        lambda: city.subscriptions.subscribe(name, "by_type", {}, "north"),
        lambda: city.runs.commit_run(Run("by_type", name, 1, 2), []),
        lambda: city.catalog.dataset(name),
        lambda: city.catalog.drop_broker(name),
        lambda: city.subscriptions.of_subscriber(name),
        lambda: city.subscriptions.news(name, 0),
        lambda: city.files.files(name),
    ):
        with pytest.raises(InvalidInput):
            call()
    assert [broker.name for broker in city.catalog.brokers()] == ["north", "south"]


def test_the_reason_of_a_failed_run_is_kept_whatever_it_says(city: Store) -> None:
    for number, error in enumerate([*HOSTILE, "long " * 100_000, "\U0001f514"]):
        city.runs.commit_run(Run("by_type", f"run-{number}", 1, 2, error=error), [])
        last = city.runs.last_run("by_type")
        assert last is not None
        assert last.error is not None
        assert len(last.error) == len(error)


def test_times_come_back_to_the_last_bit(city: Store) -> None:
    made, _ = city.subscriptions.subscribe("alice", "by_type", {}, "north")
    times = [0.1, 1 / 3, 1_700_000_000.123456, math.pi * 1e15, 5e-324, 1.7976931348623157e308, -0.5]
    for number, at in enumerate(times):
        run = Run("by_type", f"b{number}", at, at)
        city.runs.commit_run(run, [(made.backend.id, b"{}")])
        assert city.runs.last_run("by_type") == run
    found = city.results.read(made.backend.id, 0, 99, 99).results
    assert [one.created_at for one in found] == times


def test_numbers_of_64_bits_come_back(city: Store) -> None:
    run = Run("by_type", "b1", 1.0, 2.0, SMALLEST, LARGEST, {"reports": LARGEST}, LARGEST)
    city.runs.commit_run(run, [], start=RunStart(Progress({}, SMALLEST)))
    assert city.runs.last_run("by_type") == run
    assert city.progress.latest_us() == LARGEST


@pytest.mark.parametrize("number", [LARGEST, SMALLEST, 0, -1])
def test_a_number_that_is_no_id_is_not_found(city: Store, number: int) -> None:
    with pytest.raises(NotFound):
        city.subscriptions.unsubscribe(number)
    assert city.results.read_many([Range(number, SMALLEST, LARGEST, 10)]) == [None]
    assert city.subscriptions.put_markers([(number, "x", LARGEST)]) == [number]
    assert city.subscriptions.news("north", number)[1:] == ([], [])
    done = city.runs.commit_run(Run("by_type", "b1", 1, 2), [(number, b"{}")])
    assert done is not None
    assert done.count == 0


@pytest.mark.parametrize("number", [LARGEST + 1, SMALLEST - 1, 10**40])
def test_a_number_of_more_than_64_bits_is_refused(city: Store, number: int) -> None:
    made, _ = city.subscriptions.subscribe("alice", "by_type", {}, "north")
    for call in (
        lambda: city.subscriptions.unsubscribe(number),
        lambda: city.subscriptions.news("north", number),
        lambda: city.results.read(made.backend.id, number, 1, 1),
        lambda: city.subscriptions.put_markers([(number, "x", 1)]),
    ):
        with pytest.raises(InvalidInput, match="64 bits"):
            call()
    city.runs.commit_run(Run("by_type", "b1", 1, 2), [(made.backend.id, b"{}")])
    epoch = made.backend.epoch
    assert city.subscriptions.put_markers([(made.id, epoch, LARGEST + 1)]) == []
    assert city.subscriptions.get(made.id).marker == 1


def test_payloads_come_back_to_the_last_byte(city: Store) -> None:
    made, _ = city.subscriptions.subscribe("alice", "by_type", {}, "north")
    payloads = [
        b"",
        bytes(range(256)) * 3,
        b"\\'\"%s%%;\0",
        "🔔".encode(),
        b"\xff\xfe",
        b"\\N",
        b"\\.",
    ]
    rows = [(made.backend.id, payload) for payload in payloads]
    city.runs.commit_run(Run("by_type", "b1", 1, 2), rows)
    found = city.results.read(made.backend.id, 0, 99, 99).results
    assert [one.payload for one in found] == payloads


def test_many_large_payloads_are_one_run(city: Store) -> None:
    """More at once than servers take in one statement; the worst bytes double when escaped."""
    made, _ = city.subscriptions.subscribe("alice", "by_type", {}, "north")
    rows = [(made.backend.id, bytes([39 * (n % 2)]) * 2**20) for n in range(40)]
    done = city.runs.commit_run(Run("by_type", "b1", 1, 2), rows)
    assert done is not None
    assert done.bytes == 40 * 2**20
    (last,) = city.results.read(made.backend.id, 39, 40, 1).results
    assert last.payload == rows[-1][1]


def test_what_a_server_cannot_take_at_once_is_refused_and_nothing_of_it_is_stored(
    mariadb: MariaDB,
) -> None:
    with Store.open(mariadb.fresh()) as store:
        furnish(store)
        made, _ = store.subscriptions.subscribe("alice", "by_type", {}, "north")
        rows = [(made.backend.id, b"{}"), (made.backend.id, bytes(17 * 2**20))]
        with pytest.raises(TooLarge, match="max_allowed_packet"):
            store.runs.commit_run(Run("by_type", "b1", 1, 2), rows)
        assert store.runs.last_run("by_type") is None
        assert store.runs.commit_run(Run("by_type", "b2", 1, 2), rows[:1]) is not None

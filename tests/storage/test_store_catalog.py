"""Datasets, channels and brokers: kept whole, created once, dropped only when nothing depends."""

from __future__ import annotations

import msgspec
import pytest

from tocsin.errors import Conflict, InvalidInput, NotFound
from tocsin.model import Channel, Column, Dataset, Parameter
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store

from .conftest import Clock

SHELTERS = Dataset(
    name="shelters",
    columns=(Column("id", "BIGINT"), Column("tags", "ARRAY<STRING>")),
    open=True,
    primary_key=("id",),
    retain_s=3600.5,
    created_at=12.5,
)
NEARBY = Channel(
    name="nearby",
    kind="repetitive",
    parameters=(Parameter("type", "STRING"), Parameter("km", "DOUBLE")),
    query="SELECT 'é' FROM shelters",
    reads=("shelters",),
    new=(),
    period_s=10.0,
    push=True,
    created_at=13.5,
)


def test_a_dataset_and_a_channel_come_back_as_they_were_created(store: Store) -> None:
    assert store.catalog.create_dataset(SHELTERS) == SHELTERS
    assert store.catalog.create_channel(NEARBY) == NEARBY
    assert store.catalog.dataset("shelters") == SHELTERS
    assert store.catalog.channel("nearby") == NEARBY


def test_what_has_no_time_of_creation_gets_one(store: Store, clock: Clock) -> None:
    made = store.catalog.create_dataset(Dataset("plain", ()))
    assert made.created_at == clock.now
    assert store.catalog.dataset("plain") == made


def test_lists_are_sorted_by_name(city: Store) -> None:
    city.catalog.create_dataset(SHELTERS)
    city.catalog.create_dataset(Dataset("areas", ()))
    assert [one.name for one in city.catalog.datasets()] == ["areas", "reports", "shelters"]
    assert [one.name for one in city.catalog.channels()] == ["alerts", "by_type"]
    assert [one.name for one in city.catalog.brokers()] == ["north", "south"]


def test_names_differ_by_case(store: Store) -> None:
    store.catalog.create_dataset(Dataset("reports", ()))
    store.catalog.create_dataset(Dataset("Reports", ()))
    assert len(store.catalog.datasets()) == 2


def test_an_existing_name_conflicts_and_changes_nothing(city: Store) -> None:
    city.catalog.create_dataset(SHELTERS)
    city.catalog.create_channel(NEARBY)
    with pytest.raises(Conflict, match="dataset shelters exists") as dataset:
        city.catalog.create_dataset(Dataset("shelters", ()))
    with pytest.raises(Conflict, match="channel nearby exists") as channel:
        city.catalog.create_channel(msgspec.structs.replace(NEARBY, query="other"))
    with pytest.raises(Conflict, match="broker north exists") as broker:
        city.catalog.create_broker("north", "http://elsewhere")
    assert {one.value.field for one in (dataset, channel, broker)} == {"name"}
    assert city.catalog.dataset("shelters") == SHELTERS
    assert city.catalog.channel("nearby") == NEARBY
    assert city.catalog.broker("north").url == "http://north"


def test_unknown_names_are_not_found(store: Store) -> None:
    catalog = store.catalog
    for kind in ("dataset", "channel", "broker"):
        for call in (getattr(catalog, kind), getattr(catalog, f"drop_{kind}")):
            with pytest.raises(NotFound, match=f"no {kind} ghost") as caught:
                call("ghost")
            assert caught.value.field == kind


@pytest.mark.parametrize("name", ["", "x" * 191])
def test_a_name_that_no_index_can_hold_is_refused(store: Store, name: str) -> None:
    with pytest.raises(InvalidInput, match="1 to 190 characters"):
        store.catalog.create_dataset(Dataset(name, ()))
    with pytest.raises(InvalidInput, match="1 to 190 characters"):
        store.catalog.put_broker(name, "http://x")


def test_a_channel_over_an_unknown_dataset_is_refused(store: Store) -> None:
    with pytest.raises(NotFound, match="no dataset shelters"):
        store.catalog.create_channel(NEARBY)
    assert store.catalog.channels() == []


def test_a_dataset_is_not_dropped_while_channels_read_it_and_they_are_named(city: Store) -> None:
    with pytest.raises(Conflict, match="2 channels: alerts, by_type"):
        city.catalog.drop_dataset("reports")
    city.catalog.drop_channel("alerts")
    with pytest.raises(Conflict, match="1 channel: by_type"):
        city.catalog.drop_dataset("reports")
    city.catalog.drop_channel("by_type")
    city.catalog.drop_dataset("reports")
    assert city.catalog.datasets() == []


def test_a_channel_is_not_dropped_while_subscribed_and_says_by_how_many(city: Store) -> None:
    made = [
        city.subscriptions.subscribe(f"user-{n}", "by_type", {"type": "flood"}, "north")[0].id
        for n in range(7)
    ]
    city.subscriptions.subscribe("user-0", "alerts", {"type": "flood"}, "north")
    listed = ", ".join(map(str, made[:5]))
    with pytest.raises(Conflict, match=f"7 subscriptions: {listed}, …"):
        city.catalog.drop_channel("by_type")
    for number in made:
        city.subscriptions.unsubscribe(number)
    city.catalog.drop_channel("by_type")
    assert [one.name for one in city.catalog.channels()] == ["alerts"]


ROUTED = Dataset("routed", (Column("n", "INT"),), routed=True)


def test_a_routed_dataset_has_a_channel_of_filters_that_no_list_shows(
    store: Store, clock: Clock
) -> None:
    made = store.catalog.create_dataset(ROUTED)
    assert made.routed
    assert store.catalog.dataset("routed") == made
    channel = store.catalog.channel("dataset/routed")
    assert (channel.kind, channel.reads, channel.new) == ("filter", ("routed",), ())
    assert [parameter.name for parameter in channel.parameters] == ["where"]
    assert channel.created_at == clock.now
    assert store.catalog.channels() == []
    store.catalog.create_dataset(Dataset("plain", ()))
    with pytest.raises(NotFound):
        store.catalog.channel("dataset/plain")


def test_a_routed_dataset_and_its_filters_go_together_or_not_at_all(store: Store) -> None:
    store.catalog.create_dataset(ROUTED)
    subscribe = store.subscriptions.subscribe
    made, _ = subscribe("alice", "dataset/routed", {"where": ""}, None, 7)
    with pytest.raises(Conflict, match=f"dataset routed has 1 subscription: {made.id}"):
        store.catalog.drop_dataset("routed")
    assert store.catalog.dataset("routed").routed
    store.subscriptions.unsubscribe(made.id)
    store.catalog.drop_dataset("routed")
    for ask in (store.catalog.dataset, store.catalog.channel):
        with pytest.raises(NotFound):
            ask("routed" if ask == store.catalog.dataset else "dataset/routed")
    store.catalog.create_dataset(msgspec.structs.replace(ROUTED, routed=False))
    with pytest.raises(NotFound):
        store.catalog.channel("dataset/routed")
    store.catalog.drop_dataset("routed")
    store.catalog.create_dataset(ROUTED)
    assert store.catalog.channel("dataset/routed").kind == "filter"


def test_a_channel_that_reads_a_routed_dataset_keeps_it(store: Store) -> None:
    store.catalog.create_dataset(ROUTED)
    reading = Channel("by_n", "continuous", (), "SELECT 1", ("routed",), ("routed",))
    store.catalog.create_channel(reading)
    with pytest.raises(Conflict, match="1 channel: by_n"):
        store.catalog.drop_dataset("routed")
    assert [one.name for one in store.catalog.channels()] == ["by_n"]
    assert store.catalog.channel("dataset/routed").kind == "filter"


def test_a_channel_made_again_remembers_no_runs_of_its_namesake(city: Store) -> None:
    channel = city.catalog.channel("by_type")
    run = Run("by_type", "batch-1", 1.0, 2.0)
    assert city.runs.commit_run(run, []) is not None
    city.catalog.drop_channel("by_type")
    city.catalog.create_channel(channel)
    assert city.runs.last_run("by_type") is None
    assert city.runs.commit_run(run, []) is not None


def test_a_broker_is_not_dropped_while_subscriptions_are_on_it(city: Store) -> None:
    made, _ = city.subscriptions.subscribe("alice", "by_type", {"type": "flood"}, "north")
    with pytest.raises(Conflict, match=f"broker north has 1 subscription: {made.id}"):
        city.catalog.drop_broker("north")
    city.subscriptions.move(made.id, "south")
    city.catalog.drop_broker("north")
    assert [one.name for one in city.catalog.brokers()] == ["south"]


def test_put_broker_creates_then_changes_the_address_only(store: Store, clock: Clock) -> None:
    first = store.catalog.put_broker("north", "http://one")
    clock.now += 50
    second = store.catalog.put_broker("north", "http://two")
    assert (first.url, second.url) == ("http://one", "http://two")
    assert second.created_at == first.created_at
    assert store.catalog.brokers() == [second]

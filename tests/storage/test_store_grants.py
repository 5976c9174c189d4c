"""Roles and grants: kept as statements say, asked without the database, gone with what they are on,
and taken back together with the subscriptions that they had allowed."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.errors import Conflict, Forbidden, NotFound
from tocsin.model import Dataset, Grant, Subscription
from tocsin.storage.store.grants import Credentials
from tocsin.storage.store.store import Store

FLOOD = {"type": "flood"}
NURSE = Credentials.of(["nurses"], admin=False)
BOTH = Credentials.of(["nurses", "doctors"], admin=False)
NOBODY = Credentials()
ADMIN = Credentials(admin=True)


@pytest.fixture
def ward(city: Store) -> Store:
    """The city, where nurses may subscribe to `by_type`."""
    for role in ("nurses", "doctors"):
        city.grants.create_role(role)
    city.grants.grant("nurses", ["subscribe"], "by_type")
    return city


def subscribe(
    store: Store, subscriber: str, shown: Credentials | None = NURSE, channel: str = "by_type"
) -> Subscription:
    return store.subscriptions.subscribe(subscriber, channel, FLOOD, "north", shown=shown)[0]


def on(store: Store, broker: str) -> list[str]:
    return [made.subscriber for made in store.subscriptions.of_broker(broker)[1]]


def test_without_a_grant_everything_is_allowed_even_if_there_are_roles(city: Store) -> None:
    city.grants.create_role("nurses")
    assert not city.grants.rights.in_force
    assert city.grants.rights.allow(None, "publish", "reports")
    assert subscribe(city, "alice", NOBODY).subscriber == "alice"


def test_one_grant_closes_all_that_nobody_granted(ward: Store) -> None:
    rights = ward.grants.rights
    assert rights.in_force
    assert rights.allow(NURSE, "subscribe", "by_type")
    assert rights.allow(ADMIN, "publish", "reports")
    for shown in (NURSE, NOBODY, None):
        assert not rights.allow(shown, "publish", "reports")
        assert not rights.allow(shown, "subscribe", "alerts")
    assert not rights.allow(NOBODY, "subscribe", "by_type")
    assert not rights.allow(None, "subscribe", "by_type")


def test_a_tokens_role_matches_without_regard_to_case(ward: Store) -> None:
    assert ward.grants.rights.allow(Credentials.of(["NURSES"], False), "subscribe", "by_type")


def test_a_grant_is_one_however_often_it_is_given(ward: Store) -> None:
    assert ward.grants.grant("nurses", ["subscribe"], "by_type") == 0
    assert ward.grants.grant("nurses", ["read", "publish", "read"], "reports") == 2
    assert ward.grants.all_() == [
        Grant("nurses", "subscribe", "by_type"),
        Grant("nurses", "publish", "reports"),
        Grant("nurses", "read", "reports"),
    ]
    assert ward.grants.of_role("doctors") == []


def test_what_is_not_there_is_named_and_nothing_is_changed(ward: Store) -> None:
    before = ward.grants.rights
    wrongs: list[tuple[Any, str]] = [
        (lambda: ward.grants.grant("cooks", ["read"], "reports"), "role cooks"),
        (lambda: ward.grants.grant("nurses", ["read"], "by_type"), "dataset by_type"),
        (lambda: ward.grants.grant("nurses", ["subscribe"], "reports"), "channel reports"),
        (lambda: ward.revocation.revoke("cooks", ["read"], "reports"), "role cooks"),
        (lambda: ward.revocation.revoke("nurses", ["read"], "ghosts"), "dataset ghosts"),
        (lambda: ward.revocation.drop_role("cooks"), "role cooks"),
        (lambda: ward.grants.of_role("cooks"), "role cooks"),
    ]
    for wrong, named in wrongs:
        with pytest.raises(NotFound, match=f"there is no {named}"):
            wrong()
    with pytest.raises(Conflict, match="role nurses exists"):
        ward.grants.create_role("nurses")
    assert ward.grants.rights == before


def test_the_answer_is_the_same_after_a_restart(url: str, ward: Store) -> None:
    rights = ward.grants.rights
    ward.close()
    with Store.open(url) as again:
        assert again.grants.rights == rights
        assert again.grants.roles() == {"doctors": False, "nurses": True}


def test_grants_go_with_what_they_are_on_and_do_not_come_again_with_its_name(ward: Store) -> None:
    ward.grants.grant("nurses", ["publish", "read"], "reports")
    for channel in ("by_type", "alerts"):
        ward.catalog.drop_channel(channel)
    assert [grant.name for grant in ward.grants.all_()] == ["reports", "reports"]
    ward.catalog.drop_dataset("reports")
    assert ward.grants.all_() == []
    ward.catalog.create_dataset(Dataset("reports", ()))
    assert not ward.grants.rights.allow(NURSE, "publish", "reports")
    assert ward.grants.rights.in_force  # a drop opens nothing


def test_a_channel_and_a_dataset_of_one_name_keep_their_grants_apart(ward: Store) -> None:
    ward.catalog.create_dataset(Dataset("by_type", ()))
    ward.grants.grant("nurses", ["read"], "by_type")
    ward.catalog.drop_dataset("by_type")
    assert ward.grants.all_() == [Grant("nurses", "subscribe", "by_type")]


def test_taking_the_last_grant_back_opens_nothing_but_dropping_the_last_role_does(
    ward: Store,
) -> None:
    ward.revocation.revoke("nurses", ["subscribe"], "by_type")
    assert ward.grants.all_() == []
    assert not ward.grants.rights.allow(NURSE, "subscribe", "by_type")
    ward.revocation.drop_role("nurses")  # doctors never had a grant
    assert not ward.grants.rights.in_force


def test_a_revocation_ends_the_subscriptions_that_nothing_else_allows(ward: Store) -> None:
    ward.grants.grant("doctors", ["subscribe"], "by_type")
    alice = subscribe(ward, "alice")
    subscribe(ward, "bob", BOTH)
    subscribe(ward, "root", ADMIN)
    before = ward.sequence()
    revoked = ward.revocation.revoke("nurses", ["subscribe"], "by_type")
    assert revoked.grants == [Grant("nurses", "subscribe", "by_type")]
    assert [ended.subscriber for ended in revoked.ended] == ["alice"]
    assert on(ward, "north") == ["bob", "root"]
    _, _, left = ward.subscriptions.news("north", before)
    assert [(gone.subscription, gone.to) for gone in left] == [(alice.id, None)]
    assert [ended.subscriber for ended in ward.revocation.drop_role("doctors").ended] == ["bob"]


def test_the_last_to_be_ended_takes_the_backend_subscription_along(ward: Store) -> None:
    alice = subscribe(ward, "alice")
    subscribe(ward, "bob")
    version = ward.subscriptions.parameter_version("by_type")
    assert len(ward.revocation.revoke("nurses", ["subscribe"], "by_type").ended) == 2
    assert ward.subscriptions.count_parameter_sets("by_type") == 0
    changes = ward.subscriptions.parameter_changes("by_type", version)
    assert changes is not None
    assert alice.backend.id in changes[2]


def test_reading_of_a_dataset_is_taken_back_from_its_filters(ward: Store) -> None:
    ward.catalog.create_dataset(Dataset("quakes", (), routed=True))
    ward.grants.grant("nurses", ["read", "publish"], "quakes")
    made, _ = ward.subscriptions.subscribe(
        "alice", "dataset/quakes", {"where": ""}, "north", shown=NURSE
    )
    assert ward.revocation.revoke("nurses", ["publish"], "quakes").ended == []
    revoked = ward.revocation.revoke("nurses", ["read"], "quakes")
    assert [ended.id for ended in revoked.ended] == [made.id]


def test_taking_back_what_was_never_granted_changes_nothing(ward: Store) -> None:
    subscribe(ward, "alice")
    revoked = ward.revocation.revoke("doctors", ["subscribe"], "by_type")
    assert (revoked.grants, revoked.ended) == ([], [])
    assert on(ward, "north") == ["alice"]


def test_whoever_shows_too_little_is_refused_in_the_transaction(ward: Store) -> None:
    with pytest.raises(NotFound, match="there is no channel by_type"):
        subscribe(ward, "mallory", NOBODY)
    ward.grants.grant("nurses", ["publish"], "reports")
    with pytest.raises(Forbidden, match="READ ON DATASET reports is granted to none"):
        ward.grants.rights.require(NURSE, "read", "reports")
    assert ward.subscriptions.all_() == []


def test_an_attachment_to_a_broker_sets_aside_what_is_not_allowed_any_more(ward: Store) -> None:
    made = subscribe(ward, "alice")
    before = ward.sequence()
    assert ward.subscriptions.attach("alice", "south", NOBODY) == []
    assert on(ward, "north") == on(ward, "south") == []
    _, _, left = ward.subscriptions.news("north", before)
    assert [(gone.subscription, gone.to) for gone in left] == [(made.id, None)]
    (again,) = ward.subscriptions.attach("alice", "south", NURSE)
    assert (again.id, again.marker, again.broker) == (made.id, made.marker, "south")
    _, _, left = ward.subscriptions.news("north", before)
    assert [(gone.subscription, gone.to) for gone in left] == [(made.id, "south")]


def test_subscribing_again_brings_back_what_was_set_aside(ward: Store) -> None:
    made = subscribe(ward, "alice")
    ward.subscriptions.attach("alice", "south", NOBODY)
    again, new = ward.subscriptions.subscribe("alice", "by_type", FLOOD, "south", shown=NURSE)
    assert (again.id, again.broker, new) == (made.id, "south", False)


def test_what_counts_for_a_revocation_is_what_was_shown_last(ward: Store) -> None:
    ward.grants.grant("doctors", ["subscribe"], "by_type")
    subscribe(ward, "alice", NURSE)
    ward.subscriptions.attach("alice", "north", Credentials.of(["doctors"], False))
    assert ward.revocation.revoke("nurses", ["subscribe"], "by_type").ended == []
    subscribe(ward, "alice", BOTH)
    assert len(ward.revocation.revoke("doctors", ["subscribe"], "by_type").ended) == 1


def test_a_subscription_of_which_nobody_knows_what_was_shown_ends_with_a_grant(ward: Store) -> None:
    """One from before there were grants, whose subscriber has not come since."""
    subscribe(ward, "alice", None)
    assert len(ward.revocation.revoke("nurses", ["subscribe"], "by_type").ended) == 1


def test_without_what_is_shown_a_broker_moves_all_as_before(ward: Store) -> None:
    subscribe(ward, "alice")
    assert [made.broker for made in ward.subscriptions.attach("alice", "south")] == ["south"]

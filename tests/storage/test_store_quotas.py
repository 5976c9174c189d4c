"""Quotas: kept as statements say, asked without the database, gone with their role; subscriptions
are counted where they are made, and nothing is half made."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tocsin.errors import Forbidden, NotFound, QuotaExceeded
from tocsin.model import EVERYBODY, Quota, QuotaName
from tocsin.storage.store.grants import Credentials
from tocsin.storage.store.store import Store
from tocsin.storage.store.subscribing import Wish

NURSE = Credentials.of(["nurses"], admin=False)
BOTH = Credentials.of(["Nurses", "doctors"], admin=False)


@pytest.fixture
def ward(city: Store) -> Store:
    for role in ("nurses", "doctors"):
        city.grants.create_role(role)
    return city


def set_quota(store: Store, name: QuotaName, size: int, role: str = EVERYBODY) -> None:
    store.quotas.set_size(Quota(role, name, size))


def subscribe(
    store: Store, subscriber: str, *numbers: int, shown: Credentials | None = NURSE
) -> list[int]:
    wishes = [Wish(subscriber, "by_type", {"type": str(number)}) for number in numbers]
    return [made.id for made, _ in store.subscriptions.subscribe_all(wishes, shown)]


def test_a_subject_has_the_largest_of_its_roles_quotas_and_everybodys_without_one(
    ward: Store,
) -> None:
    def size(*roles: str) -> int | None:
        return ward.quotas.sizes.of("bytes", roles)

    assert size("nurses") is None
    set_quota(ward, "bytes", 5)
    set_quota(ward, "bytes", 3, "nurses")
    set_quota(ward, "bytes", 9, "doctors")
    set_quota(ward, "subscriptions", 100)
    assert [size(), size("cooks"), size("nurses"), size("doctors", "nurses")] == [5, 5, 3, 9]
    set_quota(ward, "bytes", 4, "doctors")
    assert size("doctors", "nurses") == 4
    assert ward.quotas.drop("doctors", "bytes")
    assert not ward.quotas.drop("doctors", "bytes")
    assert size("doctors") == 5
    assert ward.quotas.drop(EVERYBODY, "bytes")
    assert size("doctors") is None


def test_quotas_are_there_again_when_the_store_is_opened_again(ward: Store) -> None:
    set_quota(ward, "bytes", 10**12, "nurses")
    set_quota(ward, "connections", 0)
    kept = [Quota(EVERYBODY, "connections", 0), Quota("nurses", "bytes", 10**12)]
    assert ward.quotas.all_() == kept
    assert type(ward.quotas)(ward._database).sizes == ward.quotas.sizes


def test_a_role_that_is_not_there_has_none_and_one_that_is_dropped_takes_its_own_along(
    ward: Store,
) -> None:
    with pytest.raises(NotFound, match="no role cooks"):
        set_quota(ward, "bytes", 1, "cooks")
    with pytest.raises(NotFound, match="no role cooks"):
        ward.quotas.drop("cooks", "bytes")
    set_quota(ward, "bytes", 1, "nurses")
    set_quota(ward, "bytes", 2)
    ward.revocation.drop_role("nurses")
    assert ward.quotas.all_() == [Quota(EVERYBODY, "bytes", 2)]
    assert ward.quotas.sizes.of("bytes", ["nurses"]) == 2


def test_what_does_not_fit_whole_is_refused_whole_and_repeats_need_no_room(ward: Store) -> None:
    set_quota(ward, "subscriptions", 3, "nurses")
    made = subscribe(ward, "alice", 1, 2)
    version = ward.subscriptions.parameter_version("by_type")
    with pytest.raises(QuotaExceeded, match=r"alice uses 2 of 3 .* no room for 2 more") as over:
        subscribe(ward, "alice", 2, 3, 4)
    assert (over.value.field, over.value.status, over.value.retry_after_s) == (
        "subscriptions",
        429,
        None,
    )
    assert "an admin say: SET QUOTA subscriptions" in str(over.value)
    assert len(ward.subscriptions.all_()) == 2
    assert ward.subscriptions.parameter_changes("by_type", version) == (version, [], [])
    assert subscribe(ward, "alice", 1, 3, 2, 3)[0] == made[0]
    set_quota(ward, "subscriptions", 1, "nurses")  # what is there stays, and may be asked for
    assert subscribe(ward, "alice", 1) == [made[0]]
    with pytest.raises(QuotaExceeded):
        subscribe(ward, "alice", 5)
    for number in made:
        ward.subscriptions.unsubscribe(number)
    with pytest.raises(QuotaExceeded):
        subscribe(ward, "alice", 5)


def test_each_subscriber_is_counted_alone_by_what_is_shown(ward: Store) -> None:
    set_quota(ward, "subscriptions", 1)
    set_quota(ward, "subscriptions", 2, "doctors")
    subscribe(ward, "alice", 1)
    subscribe(ward, "bob", 1, 2, shown=BOTH)
    with pytest.raises(QuotaExceeded, match="bob uses 2 of 1"):
        subscribe(ward, "bob", 3)
    with pytest.raises(Forbidden, match="does not say who asks"):
        subscribe(ward, "bob", 3, shown=None)
    subscribe(ward, "bob", 3, 4, shown=Credentials(admin=True))


def test_parameter_sets_are_counted_in_each_channel(ward: Store) -> None:
    set_quota(ward, "parameter_sets", 2)
    subscribe(ward, "alice", 1, 2)
    ward.subscriptions.subscribe("alice", "alerts", {"type": "1"}, None, shown=NURSE)
    with pytest.raises(QuotaExceeded, match="alice in by_type uses 2 of 2 parameter_sets"):
        subscribe(ward, "alice", 3)
    assert ward.quotas.used("alice") == {"by_type": 2, "alerts": 1}


def test_many_at_the_same_time_do_not_go_over(ward: Store) -> None:
    set_quota(ward, "subscriptions", 5)

    def attempt(number: int) -> bool:
        try:
            return bool(subscribe(ward, "alice", number))
        except QuotaExceeded:
            return False

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(attempt, range(20))) == 5
    assert len(ward.subscriptions.all_()) == 5

"""The cache of messages: what is kept, what leaves, in which order; each against a plain list."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.caching import MessageCache
from tocsin.policies.message import message_policy_names, parse_message_policy


def cache_of(policy: str, slots: int = 3) -> MessageCache[int, int]:
    return MessageCache(parse_message_policy(policy), slots)


def filled(policy: str, slots: int = 3) -> MessageCache[int, int]:
    """Messages 1, 2, 3, with one client each; 3 is on top."""
    cache = cache_of(policy, slots)
    for message in (1, 2, 3):
        assert cache.put(message, message, 1, 0)
    return cache


def test_the_oldest_makes_room() -> None:
    cache = filled("sel-sub-fifo")
    cache.put(4, 4, 1, 0)
    assert cache.keys == [4, 3, 2]
    assert (len(cache), 1 in cache, 2 in cache) == (3, False, True)
    assert cache.search(lambda message: message > 2) == [3, 4]


def test_fewer_slots_keep_the_newest_and_more_leave_all() -> None:
    cache = filled("sel-sub-nop")
    kept = cache.keys[:2]
    cache.resize(2)
    assert cache.keys == kept
    cache.resize(3)
    assert cache.keys == kept
    cache.put(9, 9, 1, 0)
    assert cache.keys == [9, *kept]


def test_a_message_that_is_there_is_not_put_again() -> None:
    cache = filled("sel-sub-fifo")
    assert not cache.put(1, 1, 1, 0)
    assert cache.keys == [3, 2, 1]


@pytest.mark.parametrize(
    ("policy", "clients", "neighbours", "kept"),
    [
        ("sel", 0, 0, False), ("sel", 1, 2, True), ("leaf", 1, 0, True), ("leaf", 1, 1, False),
        ("leaf", 0, 0, False), ("all", 0, 3, True),
    ],
)  # fmt: skip
def test_what_is_kept(policy: str, clients: int, neighbours: int, kept: bool) -> None:
    assert cache_of(f"{policy}-sub-fifo").put(7, 7, clients, neighbours) == kept


def test_what_is_kept_in_passing_is_not_kept_for_the_clients_here_but_has_them() -> None:
    assert not cache_of("sel-sub-fifo").put(7, 7, 2, 0, passing=True)
    cache = cache_of("all-sub-fifo")
    assert cache.put(7, 7, 2, 0, passing=True)
    cache.left(lambda message: True)
    assert cache.keys == [7]  # one is left
    cache.left(lambda message: True)
    assert cache.keys == []


def test_clients_move_messages() -> None:
    cache = filled("sel-sub-prt")
    cache.came(lambda message: message in (1, 2))
    assert cache.keys == [2, 1, 3]  # regenerated, in the order they were in
    cache.left(lambda message: message in (1, 2))
    assert cache.keys == [2, 1, 3]  # one client each is left
    cache.left(lambda message: message == 2)
    assert cache.keys == [1, 3, 2]  # degraded
    cache.put(4, 4, 1, 0)
    assert cache.keys == [4, 1, 3]


def test_the_last_client_takes_the_message_along() -> None:
    cache = filled("leaf-sub-fifo")
    cache.came(lambda message: message == 2)
    cache.left(lambda message: message in (2, 3))
    assert cache.keys == [2, 1]


def test_nothing_moves_under_nop() -> None:
    cache = filled("all-fld-nop")
    cache.came(lambda message: message == 1)
    for _ in range(2):
        cache.left(lambda message: True)
    assert cache.keys == [3, 2, 1]


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(message_policy_names()),
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from(["put", "came", "left"]), st.integers(0, 5)), max_size=40),
)
def test_the_cache_is_a_list(name: str, slots: int, steps: list[tuple[str, int]]) -> None:
    policy = parse_message_policy(name)
    cache, plain, clients = MessageCache[int, int](policy, slots), list[int](), [0] * 6
    for what, message in steps:
        if what == "put":
            cache.put(message, message, clients[message], 0)
            if message not in plain and policy.keeps(clients[message], 0):
                plain = [message, *plain][:slots]
        elif what == "came" or clients[message]:
            comes = what == "came"
            clients[message] += 1 if comes else -1
            (cache.came if comes else cache.left)(message.__eq__)
            if message in plain:
                where = policy.moves(clients[message], comes)
                others = [one for one in plain if one != message]
                plain = [plain, [message, *others], [*others, message], others][where]
        assert cache.keys == plain
        assert len(cache) <= slots

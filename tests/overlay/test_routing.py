"""Routing, whatever happens to links and brokers: who is subscribed at a living broker gets each
publication that matches once, in order; and tables are as after a fresh start."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.network import DATASET, Network
from overlay.test_topology import grown
from tocsin.model import Column, Dataset
from tocsin.overlay.filters import Filter, as_text
from tocsin.overlay.routing import (
    Assured,
    Deliver,
    Fill,
    Gap,
    Message,
    Publication,
    Relink,
    Request,
    Response,
    Router,
    Send,
    Subscriptions,
)
from tocsin.overlay.topology import Tree, tree_of
from tocsin.sql import parse_filter
from tocsin.testing.simulation.mesh import fresh

WORLD = Dataset(DATASET, (Column("kind", "STRING"), Column("level", "INT")))


def asks(text: str) -> Filter:
    return parse_filter(text, WORLD)


QUESTIONS = [
    asks(text)
    for text in (
        "",
        "kind = 'a'",
        "kind = 'b'",
        "kind IN ('a', 'b')",
        "kind = 'a' AND level > 3",
        "kind = 'a' AND level > 5",
        "level BETWEEN 2 AND 6",
        "level = 4",
        "kind IS NULL",
    )
]


def some_record(chance: random.Random) -> dict[str, object]:
    return {"kind": chance.choice(["a", "b", "c", None]), "level": chance.randrange(8)}


def lived(seed: int, *, faults: bool, most_held: int = 1000) -> Network:
    """A minute in the life of a network."""
    chance = random.Random(seed)
    network = Network(grown(seed, chance.randint(1, 7)), seed, most_held=most_held)
    network.enter_at(chance.choice(network.base.brokers))
    for _ in range(chance.randint(20, 90)):
        network.run(network.now + chance.random() * chance.choice([0.1, 1.0, 4.0]))
        alive = sorted(network.routers)
        act = chance.random()
        if act < 0.4:
            network.publish(some_record(chance))
        elif act < 0.6:
            network.subscribe(chance.choice(alive), chance.choice(QUESTIONS))
        elif act < 0.68 and network.subscriptions:
            network.unsubscribe(chance.choice(sorted(network.subscriptions)))
        elif act < 0.75:
            network.tell_progress()
        elif faults and act < 0.85:
            network.mesh.cut()
        elif faults and act < 0.9 and len(alive) > 1:
            network.kill(chance.choice(alive))
        elif faults and act < 0.95 and len(alive) < len(network.base.brokers):
            network.revive(chance.choice(sorted(set(network.base.brokers) - set(alive))))
        elif faults and network.entry in alive:
            network.enter_at(chance.choice(alive))
    network.settle()
    return network


@pytest.mark.long
@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32))
def test_nobody_misses_or_doubles_anything_whatever_happens(seed: int) -> None:
    network = lived(seed, faults=True)
    network.check()
    clients: dict[str, list[Filter]] = {}
    for one in network.subscriptions.values():
        clients.setdefault(one.broker, []).append(one.filter)
    assert network.mesh.tables(DATASET) == fresh(network.tree, clients).tables(DATASET)
    # Now all comes by routing, not from the log.
    filled = network.fills
    for record in ({"kind": "a", "level": 4}, {"kind": "a", "level": 7}, {"kind": None}):
        network.publish(record)
        network.run()
    assert network.fills == filled
    network.tell_progress()
    network.run()
    network.check()


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32))
def test_what_does_not_fit_into_memory_is_read_from_the_log(seed: int) -> None:
    network = lived(seed, faults=True, most_held=1)
    network.check()


# -- without faults -------------------------------------------------------------------------------


def quiet(tree: Tree, policy: str = "sel-sub-fifo", entry: str | None = None) -> Network:
    """Everything arrives at once, in order."""
    network = Network(tree, slow_s=0.0, policy=policy)
    network.run()
    if entry is not None:
        network.enter_at(entry)
        network.run()
    return network


CHAIN = tree_of("abc", ["ab", "bc"])


def said(network: Network, kind: type[Message]) -> list[tuple[str, str, Message]]:
    """Messages of a kind since the last look: from, to, and what."""
    found = [
        (sender, send.neighbour, send.message)
        for sender, send in network.sent
        if isinstance(send.message, kind)
    ]
    network.sent.clear()
    return found


def forwarded(network: Network) -> list[str]:
    network.run()
    return [
        f"{sender}{to} "
        + ", ".join([*(f"+{as_text(f)}" for f in m.come), *(f"-{as_text(f)}" for f in m.gone)])
        for sender, to, m in said(network, Subscriptions)
        if isinstance(m, Subscriptions)
    ]


def test_a_covered_filter_is_not_sent_until_the_covering_one_leaves() -> None:
    network = quiet(CHAIN)
    wide = network.subscribe("a", asks("kind = 'a'"))
    assert forwarded(network) == ["ab +kind = 'a'", "bc +kind = 'a'"]
    narrow = network.subscribe("a", asks("kind = 'a' AND level > 3"))
    assert forwarded(network) == []
    network.unsubscribe(wide)
    change = "+kind = 'a' AND level >= 4, -kind = 'a'"
    assert forwarded(network) == [f"ab {change}", f"bc {change}"]
    network.unsubscribe(narrow)
    gone = "-kind = 'a' AND level >= 4"
    assert forwarded(network) == [f"ab {gone}", f"bc {gone}"]


def test_a_wider_filter_takes_the_place_of_narrower_ones() -> None:
    network = quiet(CHAIN)
    network.subscribe("a", asks("level = 4"))
    network.subscribe("b", asks("level BETWEEN 2 AND 6"))
    assert forwarded(network) == [
        "ab +level = 4",
        "ba +level BETWEEN 2 AND 6",
        "bc +level BETWEEN 2 AND 6",
    ]


def test_the_same_filter_of_two_clients_is_sent_once_and_stays_for_the_second() -> None:
    network = quiet(CHAIN)
    first, second = (network.subscribe("a", asks("level = 4")) for _ in range(2))
    assert len(forwarded(network)) == 2
    network.unsubscribe(first)
    assert forwarded(network) == []
    network.unsubscribe(second)
    assert len(forwarded(network)) == 2


def test_a_publication_goes_where_somebody_wants_it_and_not_back() -> None:
    network = quiet(tree_of("abcd", ["ab", "bc", "bd"]), entry="a")
    network.subscribe("c", asks("level = 4"))
    network.subscribe("a", asks("level = 4"))
    network.subscribe("d", asks("level = 5"))
    network.run()
    said(network, Publication)
    network.publish({"level": 4})
    network.run()
    assert [(one, other) for one, other, _ in said(network, Publication)] == [
        ("a", "b"),
        ("b", "c"),
    ]


def test_the_entry_of_publications_may_move_without_a_hole() -> None:
    """Also when nobody tells of progress, and nothing is published for a while."""
    network = quiet(CHAIN, entry="a")
    number = network.subscribe("b", asks("level = 4"))
    network.run()
    for entry in "cabac":
        network.publish({"level": 4})
        network.run()
        network.enter_at(entry)
        network.run()
    network.publish({"level": 4})
    network.run()
    assert network.fills == 0
    assert len(network.subscriptions[number].got) == 6


def test_an_entry_that_is_told_to_begin_later_fills_what_it_was_not_given() -> None:
    router = Router("a", Network(CHAIN).routers["a"].cache, bool)
    router.entered(DATASET, 3)
    router.subscribed(1, asks("level = 4"), 3)
    (asked,) = router.entered(DATASET, 9)  # 4 to 9 went elsewhere, or nowhere
    assert asked == Fill(1, DATASET, 3, 9)
    missed = Publication(DATASET, 7, {"level": 4})
    assert router.filled(DATASET, 1, [missed]) == [Deliver([1], missed)]
    assert router.marker(1) == 9


def test_an_entry_notices_what_it_was_not_given() -> None:
    router = Router("a", Network(CHAIN).routers["a"].cache, bool)
    router.entered(DATASET, 3)
    router.subscribed(1, asks("level = 4"), 3)
    next_one = Publication(DATASET, 9, {"level": 4})
    assert router.published(next_one, 7) == [Fill(1, DATASET, 3, 7)]
    missed = Publication(DATASET, 7, {"level": 4})
    assert router.filled(DATASET, 1, [missed]) == [Deliver([1], missed), Deliver([1], next_one)]


def test_what_is_filled_by_parts_comes_in_order_and_once() -> None:
    router = Router("a", Network(CHAIN).routers["a"].cache, bool)
    router.entered(DATASET, 3)
    router.subscribed(1, asks("level = 4"), 3)
    assert router.entered(DATASET, 9) == [Fill(1, DATASET, 3, 9)]
    first, second, third = (Publication(DATASET, at, {"level": 4}) for at in (5, 7, 12))
    assert router.published(third, 9) == []  # held
    assert router.filled(DATASET, 1, [first], upto=6) == [Deliver([1], first)]
    assert router.marker(1) == 6
    assert router.filled(DATASET, 1, [first, second], upto=99) == [
        Deliver([1], second),
        Deliver([1], third),
    ]
    assert router.filled(DATASET, 1, [second]) == []


def test_who_leaves_while_parts_are_filled_gets_no_more() -> None:
    router = Router("a", Network(CHAIN).routers["a"].cache, bool)
    router.entered(DATASET, 3)
    router.subscribed(1, asks("level = 4"), 3)
    router.entered(DATASET, 9)
    router.unsubscribed(1)
    assert router.filled(DATASET, 1, [Publication(DATASET, 5, {"level": 4})], upto=6) == []


def _neighbour(router: Router, name: str, *messages: Message) -> list[object]:
    """What a neighbour over a new link says, and what comes of it."""
    effects = list(router.linked(name, 1))
    for number, message in enumerate(messages, start=1):
        effects += router.heard(name, 1, number, message)
    return [one for one in effects if not isinstance(one, Send)]


def test_a_way_that_lags_behind_tells_nothing_twice() -> None:
    router = Router("b", Network(CHAIN).routers["a"].cache, bool)
    router.subscribed(1, asks("level = 4"), -1)
    first, second = (Publication(DATASET, at, {"level": 4}) for at in (3, 5))
    assert _neighbour(router, "a", Assured(DATASET, -1, 1), first, second) == [
        Deliver([1], first),
        Deliver([1], second),
    ]
    assert _neighbour(router, "c", Assured(DATASET, 2, 1)) == []
    router.unlinked("a", 1)
    assert router.heard("c", 1, 2, first) == []
    assert router.route(DATASET).seen == 5
    assert router.heard("c", 1, 3, second) == []
    assert router.route(DATASET).seen == 5
    third = Publication(DATASET, 6, {"level": 4})
    assert router.heard("c", 1, 4, third) == [Deliver([1], third)]


def test_only_the_way_that_is_assured_counts() -> None:
    """A faster way would let us take what is late on the assured one for a repeat."""
    router = Router("b", Network(CHAIN).routers["a"].cache, bool)
    router.subscribed(1, asks("level = 4"), -1)
    first, second = (Publication(DATASET, at, {"level": 4}) for at in (3, 5))
    assert _neighbour(router, "a", Assured(DATASET, -1, 1)) == []
    assert _neighbour(router, "c", second) == []
    assert router.heard("a", 1, 2, first) == [Deliver([1], first)]
    assert router.heard("a", 1, 3, second) == [Deliver([1], second)]


def test_a_lost_message_closes_the_link() -> None:
    router = Router("b", Network(CHAIN).routers["a"].cache, bool)
    router.linked("a", 7)
    asked = Subscriptions(DATASET, (asks("level = 4"),))
    assert router.heard("a", 7, 2, asked) == [Relink("a", 7)]
    assert router.heard("a", 6, 1, asked) == []
    assert router.route(DATASET).tables.asked("a") == set()


def test_what_the_log_no_longer_has_is_told() -> None:
    router = Router("b", Network(CHAIN).routers["a"].cache, bool)
    router.entered(DATASET, 9)
    assert router.subscribed(1, asks("level = 4"), 2) == [Fill(1, DATASET, 2, 9)]
    kept = Publication(DATASET, 7, {"level": 4})
    assert router.filled(DATASET, 1, [kept], floor=5) == [
        Gap([1], DATASET, 2, 5),
        Deliver([1], kept),
    ]


@pytest.mark.parametrize(
    "message",
    [
        Publication(DATASET, 3, {"kind": "a", "level": None}),
        Subscriptions(DATASET, (QUESTIONS[4],), (QUESTIONS[1], QUESTIONS[8])),
        Assured(DATASET, -1, 3),
        Request(4, QUESTIONS[3], ("a", "b")),
        Response(4, Publication(DATASET, 3, {}), ("a",), 2),
    ],
)
def test_messages_travel_as_json(message: Message) -> None:
    assert msgspec.json.decode(msgspec.json.encode(message), type=Message) == message

"""Trees of brokers: made, read, cut. Whatever comes out is one tree, and the same for everybody."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.errors import InvalidInput
from tocsin.overlay.topology import Tree, balanced, read_tree, tree_of, without


def grown(seed: int, count: int) -> Tree:
    """Any tree: each broker is linked with an earlier one."""
    chance = random.Random(seed)
    names = [f"b{number}" for number in range(count)]
    chance.shuffle(names)
    links = [(names[chance.randrange(at)], names[at]) for at in range(1, count)]
    return tree_of(names, links)


def test_a_balanced_tree_is_filled_level_by_level() -> None:
    tree = balanced("abcdefg")
    assert tree.links == (("a", "b"), ("a", "c"), ("b", "d"), ("b", "e"), ("c", "f"), ("c", "g"))
    assert tree.neighbours("b") == ["a", "d", "e"]
    assert tree.path("d", "g") == ["d", "b", "a", "c", "g"]
    assert tree.path("d", "d") == ["d"]
    assert set(balanced("abcdefg").links) < set(balanced("abcdefgh").links)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.data())
def test_after_any_deaths_the_living_are_one_tree(
    seed: int, count: int, data: st.DataObject
) -> None:
    tree = grown(seed, count)
    dead = data.draw(st.lists(st.sampled_from(tree.brokers), max_size=count - 1, unique=True))
    left = without(tree, dead)
    assert set(left.brokers) == set(tree.brokers) - set(dead)
    assert len(left.links) == len(left.brokers) - 1  # and tree_of has found no cycle
    assert {link for link in tree.links if not set(link) & set(dead)} <= set(left.links)
    assert left == without(tree, reversed(dead))


@given(st.integers(0, 10**6), st.integers(3, 12))
def test_a_death_adds_few_links_to_anyone(seed: int, count: int) -> None:
    tree = grown(seed, count)
    for dead in tree.brokers:
        left = without(tree, [dead])
        for name in left.brokers:
            assert len(left.neighbours(name)) <= len(tree.neighbours(name)) + 2


def test_neighbours_of_the_dead_are_joined() -> None:
    tree = balanced("abcdefg")
    assert without(tree, "a").links == (("b", "c"), ("b", "d"), ("b", "e"), ("c", "f"), ("c", "g"))
    assert without(tree, "b").links == (("a", "c"), ("a", "d"), ("c", "f"), ("c", "g"), ("d", "e"))
    assert without(tree, ["g", "nobody"]).links == tree.links[:-1]


def test_a_tree_is_read_from_toml() -> None:
    text = 'brokers = ["a", "b", "c"]\nlinks = [["c", "a"], ["b", "c"]]'
    assert read_tree(text) == Tree(("a", "b", "c"), (("a", "c"), ("b", "c")))
    assert read_tree('links = [["c", "a"]]').brokers == ("c", "a")
    assert read_tree('links = [["c", "a"]]', ["a", "c"]).brokers == ("a", "c")


@pytest.mark.parametrize(
    ("text", "message", "field"),
    [
        ('links = [["a","b"],["b","c"],["c","a"]]', "a cycle: a – b – c – a", "links[2]"),
        ('brokers = ["a","b"]\nlinks = [["a","x"]]', "no broker is called 'x'", "links[0]"),
        ('links = [["a","b"],["c","d"]]', "fall into 2 parts: a, b; c, d", "links"),
        ('brokers = ["a","b","c"]\nlinks = [["a","b"]]', "fall into 2 parts: a, b; c", "links"),
        ('links = [["a","a"]]', "a link is between two brokers", "links[0]"),
        ('links = [["a"]]', "a link is between two brokers", "links[0]"),
        ('links = [["a","b"],["b","a"]]', "'a' and 'b' are linked twice", "links[1]"),
        ('brokers = ["a","a"]\nlinks = []', "broker 'a' is named twice", "brokers"),
        ("links = []", "at least one broker", "brokers"),
        ('links = "a-b"', "this is no tree", "links"),
        ('link = [["a","b"]]', "this is no tree", "link"),
        ("links = [[", "this is no TOML", "tree"),
    ],
)
def test_what_is_no_tree_is_told(text: str, message: str, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_tree(text)
    assert message in refused.value.message
    assert refused.value.field == field


def test_somebody_is_left() -> None:
    with pytest.raises(InvalidInput, match="no broker is left"):
        without(balanced("ab"), "ab")

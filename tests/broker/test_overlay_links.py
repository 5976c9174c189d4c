"""Routing over real links: publications reach who asked for them, once and in order, however often
sockets break; tables are as after a fresh start."""

from __future__ import annotations

import asyncio
import random

import pytest

from broker.link_network import LinkNetwork, running
from overlay.network import DATASET
from overlay.test_routing import QUESTIONS, asks, some_record
from overlay.test_topology import grown
from tocsin.overlay.filters import Filter
from tocsin.overlay.topology import tree_of
from tocsin.testing.simulation.mesh import fresh

CHAIN = tree_of("abcd", ["ab", "bc", "cd"])


def fresh_tables(network: LinkNetwork) -> dict[tuple[str, str], set[Filter]]:
    """Of the same subscriptions over links that never broke."""
    clients: dict[str, list[Filter]] = {}
    for one in network.subscriptions.values():
        clients.setdefault(one.broker, []).append(one.filter)
    return fresh(network.tree, clients).tables(DATASET)


async def test_publications_reach_those_who_asked_along_the_tree() -> None:
    async with running(LinkNetwork(CHAIN, 1)) as network:
        far = network.subscribe("d", asks("kind = 'a'"))
        near = network.subscribe("b", asks("level > 3"))
        await network.settle()
        fills = len(network._fills)
        for record in ({"kind": "a", "level": 1}, {"kind": "b", "level": 5}, {"kind": "b"}):
            network.publish(record)
        await network.settle()
        network.check()
        assert [len(network.subscriptions[one].got) for one in (far, near)] == [1, 1]
        assert len(network._fills) == fills
        # What nobody behind a link asked for does not cross it.
        assert network.nodes["a"].links.counts.messages_out < 12
        assert network.tables() == fresh_tables(network)


@pytest.mark.parametrize("seed", range(5))
async def test_nobody_misses_or_doubles_anything_however_sockets_break(seed: int) -> None:
    chance = random.Random(seed)
    async with running(LinkNetwork(grown(seed, 5), seed)) as network:
        for _ in range(120):
            await asyncio.sleep(chance.choice([0.0, 0.002, 0.02]) * chance.random())
            act = chance.random()
            if act < 0.55:
                network.publish(some_record(chance))
            elif act < 0.7:
                network.subscribe(chance.choice(network.base.brokers), chance.choice(QUESTIONS))
            elif act < 0.75 and network.subscriptions:
                network.unsubscribe(chance.choice(sorted(network.subscriptions)))
            elif act < 0.82:
                network.tell_progress()
            elif act < 0.86:
                network.enter_at(chance.choice(network.base.brokers))
            else:
                network.cut_a_link()
        await network.settle()
        network.check()
        assert network.tables() == fresh_tables(network)
        assert sum(node.links.counts.relinks for node in network.nodes.values()) > 0


@pytest.mark.parametrize("seed", range(3))
async def test_brokers_die_and_return_at_another_address(seed: int) -> None:
    chance = random.Random(seed)
    async with running(LinkNetwork(grown(seed, 5), seed)) as network:
        for _ in range(6):
            for _ in range(10):
                network.publish(some_record(chance))
                await asyncio.sleep(0.002 * chance.random())
                network.subscribe(chance.choice(sorted(network.nodes)), chance.choice(QUESTIONS))
            away = sorted(set(network.base.brokers) - set(network.nodes))
            if away and (chance.random() < 0.5 or len(network.nodes) < 3):
                await network.revive(chance.choice(away))
            else:
                await network.kill(chance.choice(sorted(network.nodes)))
            await network.tell()
        await network.settle()
        network.check()
        assert network.tables() == fresh_tables(network)

"""Requests for old messages: the example of overlay, Figure 2, and who asks whom."""

from __future__ import annotations

import pytest

from overlay.network import DATASET, Network
from tocsin.model import Column, Dataset
from tocsin.overlay.filters import Filter
from tocsin.overlay.topology import tree_of
from tocsin.sql import parse_filter

WORLD = Dataset(DATASET, (Column("colour", "STRING"),))

# The picture (overlay, Figure 2) is not in our copy; this tree has all that the text says
# of it. Messages are published at 3 (black) and at 9 (gray).
LINKS = "1-4 2-4 3-4 4-5 5-6 6-7 6-8 8-9 8-10 10-11"
FIGURE_2 = tree_of(
    [str(number) for number in range(1, 12)],
    [link.split("-") for link in LINKS.split()],
)


def asks(colour: str) -> Filter:
    return parse_filter(f"colour = '{colour}'", WORLD)


def figure_2(policy: str) -> Network:
    """Before the client at 5 comes: clients want black at 1, 4, 7 and gray at 8, 10, 11."""
    network = Network(FIGURE_2, slow_s=0.0, policy=policy)
    network.run()
    for colour, publisher, brokers in (("black", "3", "1 4 7"), ("gray", "9", "8 10 11")):
        for broker in brokers.split():
            network.subscribe(broker, asks(colour))
        network.run()
        network.enter_at(publisher)
        network.run()
        network.publish({"colour": colour})
        network.run()
    return network


def holders(network: Network, position: int) -> str:
    key = (DATASET, position)
    return " ".join(name for name in FIGURE_2.brokers if key in network.routers[name].cache)


def client_at_5(network: Network) -> list[tuple[int, int]]:
    """Position and hops of what it gets."""
    network.subscribe("5", asks("black"))
    network.run()
    request = network.request("5", asks("black"))
    network.run()
    return [(one.publication.position, one.hops) for one in network.recalled[request]]


def counted(network: Network) -> dict[str, int]:
    totals = [router.counters for router in network.routers.values()]
    return {
        name: sum(getattr(one, name) for one in totals)
        for name in ("searches", "slots_searched", "responses", "dropped", "delivered")
    }


def test_figure_2_under_basic_caching() -> None:
    network = figure_2("sel-sub-fifo")
    black, gray = (one.position for one in network.log)
    assert (holders(network, black), holders(network, gray)) == ("1 4 7", "8 10 11")
    assert client_at_5(network) == [(black, 1)]  # from 4; 1's is dropped at 4, 7's at 5
    assert holders(network, black) == "1 4 5 7"
    assert counted(network) == {
        "searches": 4,
        "slots_searched": 3,
        "responses": 3,
        "dropped": 2,
        "delivered": 1,
    }


def test_figure_2_under_leaf_caching() -> None:
    network = figure_2("leaf-sub-fifo")
    black, gray = (one.position for one in network.log)
    assert (holders(network, black), holders(network, gray)) == ("1 7", "11")
    assert client_at_5(network) == [(black, 2)]  # from 1 or 7: the second is told once only
    assert holders(network, black) == "1 7"  # 5 has two broker subscribers, 4 and 6
    assert counted(network) == {
        "searches": 4,
        "slots_searched": 2,
        "responses": 2,
        "dropped": 0,
        "delivered": 2,
    }


@pytest.mark.parametrize(("request_", "searches"), [("sub", 4), ("fld", 11)])
def test_flooding_asks_every_broker(request_: str, searches: int) -> None:
    network = figure_2(f"sel-{request_}-fifo")
    client_at_5(network)
    assert counted(network)["searches"] == searches


def test_the_last_client_takes_the_message_with_it() -> None:
    network = figure_2("sel-sub-fifo")
    black = network.log[0].position
    number = next(n for n, one in network.subscriptions.items() if one.broker == "4")
    again = network.subscribe("4", asks("black"))
    network.run()
    network.unsubscribe(number)
    network.run()
    assert holders(network, black) == "1 4 7"
    network.unsubscribe(again)
    network.run()
    assert holders(network, black) == "1 7"


def test_a_response_that_comes_to_a_broken_link_is_lost_without_harm() -> None:
    network = figure_2("leaf-sub-fifo")
    request = network.request("5", asks("black"))
    network.routers["4"].unlinked("5", network.mesh.connections["4", "5"].incarnation)
    network.run()
    assert [one.hops for one in network.recalled[request]] == [2]  # 7's came


def test_everything_that_passes_is_kept_by_all() -> None:
    network = figure_2("all-sub-nop")
    black = network.log[0].position
    assert holders(network, black) == "1 3 4 5 6 7"

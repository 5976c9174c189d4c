"""How many brokers there must be: the one part that more machines make larger."""

from __future__ import annotations

import math

from tocsin.lab.capacity.costs import ProcessCosts, WireCosts
from tocsin.lab.capacity.formulas import Formula, Term, cores
from tocsin.lab.capacity.load import Hardware, Load
from tocsin.lab.capacity.parts import Limit, Part, machines_for

MOST = 1 << 24
CACHE_BYTES = 64e6  # the default of the setting cache_bytes


def copies(brokers: float, subscribers: float) -> float:
    """At how many brokers a set's subscribers are, if each is at any of them: so many times is a
    result sent. `brokers · (1 − (1 − 1/brokers)^subscribers)`."""
    if brokers <= 1:
        return 1.0
    return -brokers * math.expm1(subscribers * math.log1p(-1 / brokers))


def part(load: Load, costs: ProcessCosts, wire: WireCosts, hardware: Hardware) -> Part:
    count = _fewest(load, costs, hardware)
    needed = _formulas(load, costs, wire, count)
    usable = (
        hardware.headroom * math.floor(hardware.cores),
        hardware.headroom * hardware.memory_bytes,
    )
    machines = machines_for(count, needed["memory"].value, usable)
    return Part(
        name="brokers",
        formulas=tuple(needed.values()),
        limits=_limits(costs, hardware, load),
        processes=count,
        machines=machines,
        binds=_fullest(load, costs, hardware, count)[1],
    )


def _fewest(load: Load, costs: ProcessCosts, hardware: Hardware) -> int:
    """Every share of a broker shrinks as there are more of them."""
    if costs.idle_cores >= hardware.headroom:
        return MOST
    high = 1
    while high < MOST and _fullest(load, costs, hardware, high)[0] > 1:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if _fullest(load, costs, hardware, middle)[0] <= 1 else (middle, high)
        )
    return high


def _fullest(load: Load, costs: ProcessCosts, hardware: Hardware, count: int) -> tuple[float, str]:
    """How full the fullest of one broker's resources is, and which."""
    formulas = _formulas(load, costs, _FREE, count)
    return max(
        (formulas["cores"].value / count / hardware.headroom, "CPU"),
        (formulas["memory"].value / count / (hardware.headroom * hardware.memory_bytes), "memory"),
        (load.connections / count / hardware.connections_per_broker, "connections"),
    )


def _formulas(load: Load, costs: ProcessCosts, wire: WireCosts, count: int) -> dict[str, Formula]:
    sent = load.results_per_s * copies(count, load.subscribers_per_set)
    held = load.sets * copies(count, load.subscribers_per_set)
    deliveries = Term("deliveries/s", load.deliveries_per_s, costs.us_per_delivery_apart, "µs")
    return {
        "cores": cores(
            [
                Term("brokers", count, 1e6 * costs.idle_cores, "µs idle"),
                Term("results/s at their brokers", sent, costs.us_per_result, "µs"),
                deliveries,
            ]
        ),
        "memory": Formula(
            "memory",
            [
                Term("brokers", count, costs.base_bytes + CACHE_BYTES, "B with a cache"),
                Term("sets at their brokers", held, costs.bytes_per_set, "B"),
                Term("subscriptions", load.subscriptions, costs.bytes_per_subscription, "B"),
                Term("connections", load.connections, costs.bytes_per_connection, "B"),
            ],
            "B",
        ),
        "in": Formula(
            "in",
            [
                Term(
                    "results/s at their brokers",
                    sent,
                    load.result_bytes + wire.bytes_per_notice,
                    "B",
                )
            ],
            "B/s",
        ),
        "out": Formula(
            "out",
            [
                Term(
                    "deliveries/s",
                    load.deliveries_per_s,
                    load.result_bytes + wire.bytes_per_delivery,
                    "B",
                )
            ],
            "B/s",
        ),
    }


def _limits(costs: ProcessCosts, hardware: Hardware, load: Load) -> tuple[Limit, ...]:
    if costs.idle_cores < hardware.headroom:
        return ()
    return (
        Limit(
            of="an idle broker, beside the headroom",
            needs=costs.idle_cores,
            most=hardware.headroom,
            unit="cores",
            moved_by="a headroom above what an idle broker uses",
        ),
    )


_FREE = WireCosts(bytes_per_record=0, bytes_per_notice=0, bytes_per_delivery=0)

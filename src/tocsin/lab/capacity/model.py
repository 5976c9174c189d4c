"""From a wish, costs and machines to what each part needs. Sums of products, and nothing fitted.

Everything is linear in the load but two things: at how many brokers a result arrives (`brokers`),
and a run, whose fixed part is paid once in `fresh_s` however many records came.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from tocsin.lab.capacity import brokers, computing, keeping
from tocsin.lab.capacity.costs import Costs
from tocsin.lab.capacity.load import Hardware, Load
from tocsin.lab.capacity.parts import Limit, Part

CLOSE = 1.0005


class Plan(Struct, frozen=True):
    load: Load
    hardware: Hardware
    costs: Costs
    parts: tuple[Part, ...]
    highest_rate: float
    """Records a second at which the same wish meets its first wall; 0: it does without records."""

    @property
    def walls(self) -> list[tuple[Part, Limit]]:
        """Those that are passed, the worst first."""
        passed = [(part, part.wall) for part in self.parts]
        walls = [(part, limit) for part, limit in passed if limit is not None]
        return sorted(walls, key=lambda wall: -wall[1].share)

    @property
    def fits(self) -> bool:
        return not self.walls

    @property
    def next_wall(self) -> tuple[Part, Limit]:
        """What is the nearest to its limit, or the farthest beyond."""
        limits = [(part, limit) for part in self.parts for limit in part.limits]
        return max(limits, key=lambda wall: wall[1].share)

    @property
    def machines(self) -> int:
        return sum(part.machines for part in self.parts)


def plan(load: Load, costs: Costs, hardware: Hardware) -> Plan:
    parts = parts_for(load, costs, hardware)
    return Plan(load, hardware, costs, parts, highest_rate(load, costs, hardware))


def parts_for(load: Load, costs: Costs, hardware: Hardware) -> tuple[Part, ...]:
    served = brokers.part(load, costs.of("broker"), costs.wire, hardware)
    company = costs.profile == "company"
    cluster, spark = (
        computing.cluster(load, costs, hardware, served.processes),
        computing.spark(load, costs, hardware),
    )
    kept = [keeping.kafka(load, costs, hardware), keeping.database(load, costs, hardware)]
    if not company:
        kept = [keeping.log(load, costs), keeping.store(load, costs)]
    coordinator = computing.coordinator(costs, hardware, served.processes)
    together = computing.with_machine(cluster, spark, coordinator, hardware)
    return (together, spark, *kept, served, coordinator)


def highest_rate(load: Load, costs: Costs, hardware: Hardware) -> float:
    def fits(rate: float) -> bool:
        tried = replace(load, records_per_s=rate)
        return not any(part.wall for part in parts_for(tried, costs, hardware))

    low, high = 1e-3, 1.0
    if not fits(low):
        return 0.0
    while fits(high) and high < 1e12:
        low, high = high, 2 * high
    while high > CLOSE * low:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low

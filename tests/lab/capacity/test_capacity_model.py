"""What each part needs: one plan worked by hand, and what must hold for all of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lab.capacity.made import costs
from tocsin.errors import InvalidInput
from tocsin.lab.capacity.brokers import copies
from tocsin.lab.capacity.load import Hardware, Load
from tocsin.lab.capacity.model import Plan, highest_rate, parts_for, plan
from tocsin.lab.capacity.parts import Part

SMALL = Load(
    subscribers=10_000,
    records_per_s=1000,
    record_bytes=200,
    results_per_record=0.5,
    result_bytes=300,
    subscribers_per_set=4,
    online=0.25,
    keep_records_s=10_000,
    keep_results_s=1000,
)
MACHINE = Hardware(cores=4, memory_bytes=8e9)


def part(of: Plan, name: str) -> Part:
    return next(each for each in of.parts if each.name == name)


def test_a_small_plan_worked_by_hand() -> None:
    """1,000 records and so 500 results a second; 2,500 sets; 2,500 connections; each result to 1
    of its 4 subscribers, so 500 deliveries. One broker: no result goes to a second one."""
    made = plan(SMALL, costs(), MACHINE)
    cluster = part(made, "cluster")
    # 10,000 idle + 1 run of 5,000 + 1,000 · 20 + 500 · 30 + 500 · 15 = 57,500 µs
    assert cluster.cores == pytest.approx(0.0575)
    assert cluster.memory_bytes == 200e6 + 2500 * 300
    assert cluster.amount("in") == 1000 * 210
    assert cluster.amount("out") == 500 * 400
    spark = part(made, "Spark")
    # 1 run of 50,000 + 2.5 · 100, + 1,000 · 40 + 500 · 10
    assert spark.cores == pytest.approx(0.09525)
    # a run after the other: 50,250 + 5,000 + 10,000 waited + 40,000 + 5,000 + 500 · 30
    assert spark.limits[0].needs == pytest.approx(0.12525)
    assert spark.limits[0].most == 0.7
    brokers = part(made, "brokers")
    assert (brokers.processes, brokers.machines) == (1, 1)
    assert brokers.cores == pytest.approx(0.02 + 500 * 12e-6 + 500 * 40e-6)
    assert brokers.memory_bytes == 80e6 + 64e6 + 2500 * 200 + 10_000 * 400 + 2500 * 10_000
    assert brokers.amount("out") == 500 * 500
    log, store = part(made, "log and Parquet"), part(made, "store")
    assert (log.amount("written"), log.amount("disk")) == (1000 * 250, 1000 * 10_000 * 100)
    assert store.amount("rows") == 500
    assert store.amount("disk") == 500 * 1000 * 400 + 2500 * 170 + 10_000 * 100
    assert made.fits
    # The runs bind: 65,250 once, then 40 + 5 + 15 µs of each record, in 700,000 µs
    assert made.next_wall[0].name == "Spark"
    assert made.highest_rate == pytest.approx((700_000 - 65_250) / 60, rel=1e-3)


def test_results_to_a_second_broker_cost_the_cluster_a_copy() -> None:
    """Two brokers with 1,250 connections each; of 4 subscribers of a set all are at the same one in
    an eighth of all cases: 500 results make 500 · 1.875 copies."""
    made = plan(SMALL, costs(), replace(MACHINE, connections_per_broker=1250))
    assert part(made, "brokers").processes == 2
    assert part(made, "cluster").cores == pytest.approx(0.0575 + 500 * 0.875 * 10e-6)
    assert part(made, "cluster").amount("out") == pytest.approx(500 * 1.875 * 400)
    assert part(made, "brokers").amount("in") == pytest.approx(500 * 1.875 * 400)


def test_a_formula_shows_its_numbers() -> None:
    [cores, *_] = part(plan(SMALL, costs(), MACHINE), "cluster").formulas
    assert str(cores) == (
        "cores = process 1 × 10k µs idle + runs/s 1 × 5k µs + records/s 1k × 20 µs"
        " + results/s 500 × 30 µs + deliveries/s 500 × 15 µs = 0.0575"
    )


def test_a_wish_beyond_one_process_is_told_as_a_wall_and_not_as_machines() -> None:
    made = plan(replace(SMALL, records_per_s=100_000), costs(), MACHINE)
    wall = part(made, "cluster").wall
    assert wall is not None
    assert wall.of.startswith("the cluster's process")
    assert wall.share == pytest.approx(part(made, "cluster").cores / 0.7)
    assert not made.fits
    assert made.highest_rate < 100_000
    shares = [limit.share for _, limit in made.walls]
    assert shares == sorted(shares, reverse=True)
    assert made.next_wall[1] == made.walls[0][1]


def test_the_company_has_one_partition_and_one_writer() -> None:
    made = plan(SMALL, costs("company"), MACHINE)
    kafka, database = part(made, "Kafka"), part(made, "database")
    assert kafka.partitions == 1
    assert kafka.cores == pytest.approx(0.02 + 1000 * 15e-6)
    assert database.cores == pytest.approx(500 * 50e-6 + 500 * 5e-6)
    far = plan(replace(SMALL, records_per_s=40_000), costs("company"), MACHINE)
    writer = part(far, "database").wall
    assert writer is not None
    assert writer.needs == pytest.approx(20_000 * 55e-6)


def test_parts_on_one_machine_share_its_memory() -> None:
    tiny = replace(MACHINE, memory_bytes=1e9)
    wall = part(plan(SMALL, costs(), tiny), "cluster").wall
    assert wall is not None
    assert wall.unit == "B"
    assert wall.needs == pytest.approx(200e6 + 500e6 + 60e6 + 2500 * 500)


@pytest.mark.parametrize(
    ("hardware", "binds", "count"),
    [
        (Hardware(cores=4), "connections", 40),  # 2,000,000 connections
        (Hardware(cores=4, connections_per_broker=1e9, memory_bytes=4e9), "memory", 10),
    ],
)
def test_what_binds_brokers_decides_their_number(
    hardware: Hardware, binds: str, count: int
) -> None:
    load = Load(subscribers=10e6, records_per_s=10)
    brokers = part(plan(load, costs(), hardware), "brokers")
    assert (brokers.binds, brokers.processes) == (binds, count)


def test_a_result_goes_to_each_broker_that_has_a_subscriber() -> None:
    assert copies(1, 10) == 1
    assert copies(10, 1) == pytest.approx(1)
    assert copies(2, 2) == pytest.approx(1.5)  # the second is at the same one every other time
    assert copies(1e6, 10) == pytest.approx(10, rel=1e-4)
    assert copies(3, 1000) == pytest.approx(3)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("subscribers", 0),
        ("records_per_s", math.inf),
        ("records_per_s", math.nan),
        ("subscribers_per_set", 0.5),
        ("online", 1.5),
        ("keep_results_s", -1),
        ("fresh_s", 0),
    ],
)
def test_a_load_that_cannot_be_is_refused(field: str, value: float) -> None:
    with pytest.raises(InvalidInput) as refused:
        replace(SMALL, **{field: value})
    assert refused.value.field
    assert refused.value.hint


@pytest.mark.parametrize(("field", "value"), [("cores", 0.5), ("headroom", 0), ("headroom", 1.1)])
def test_a_machine_that_cannot_be_is_refused(field: str, value: float) -> None:
    with pytest.raises(InvalidInput):
        replace(MACHINE, **{field: value})


LOADS = st.builds(
    Load,
    subscribers=st.floats(1, 1e9),
    records_per_s=st.floats(0.01, 1e7),
    record_bytes=st.floats(1, 1e6),
    results_per_record=st.floats(0, 100),
    subscribers_per_set=st.floats(1, 1e6),
    online=st.floats(0, 1),
    channels=st.integers(1, 50).map(float),
)
MACHINES = st.builds(
    Hardware,
    cores=st.floats(1, 128),
    memory_bytes=st.floats(1e9, 1e12),
    headroom=st.floats(0.1, 1),
)
PROFILES = st.sampled_from(["embedded", "company"])
GROWING = (
    *("subscribers", "records_per_s", "record_bytes", "results_per_record", "result_bytes"),
    *("subscriptions_each", "online", "keep_records_s", "keep_results_s"),
)


@settings(max_examples=100, deadline=None)
@given(LOADS, MACHINES, PROFILES, st.sampled_from(GROWING), st.floats(1, 10))
def test_more_load_never_needs_less(
    load: Load, machine: Hardware, profile: str, field: str, times: float
) -> None:
    grown = min(1.0, load.online * times) if field == "online" else getattr(load, field) * times
    more = replace(load, **{field: grown})
    before, after = (parts_for(each, costs(profile), machine) for each in (load, more))
    for little, much in zip(before, after, strict=True):
        assert much.processes >= little.processes, little.name
        assert much.machines >= little.machines, little.name
        for formula in little.formulas:
            assert much.amount(formula.of) >= formula.value * (1 - 1e-9), (little.name, formula.of)
        for low, high in zip(little.limits, much.limits, strict=True):
            assert high.share >= low.share * (1 - 1e-9), (little.name, low.of)


@settings(max_examples=30, deadline=None)
@given(LOADS, MACHINES, PROFILES, st.sampled_from(["cores", "memory_bytes"]))
def test_twice_the_machine_never_carries_less(
    load: Load, machine: Hardware, profile: str, field: str
) -> None:
    larger = replace(machine, **{field: 2 * getattr(machine, field)})
    assert highest_rate(load, costs(profile), larger) >= 0.999 * highest_rate(
        load, costs(profile), machine
    )


@settings(max_examples=30, deadline=None)
@given(LOADS, MACHINES, PROFILES)
def test_the_highest_rate_is_where_the_first_wall_stands(
    load: Load, machine: Hardware, profile: str
) -> None:
    made = plan(load, costs(profile), machine)
    at = made.highest_rate
    if not 0 < at < 1e12:
        return
    below = plan(replace(load, records_per_s=at), costs(profile), machine)
    beyond = plan(replace(load, records_per_s=1.01 * at), costs(profile), machine)
    assert below.fits
    assert not beyond.fits

"""What computes: the cluster's process, Spark, the coordinator, and the machine they share."""

from __future__ import annotations

from msgspec.structs import replace

from tocsin.lab.capacity.brokers import copies
from tocsin.lab.capacity.costs import Costs
from tocsin.lab.capacity.formulas import Formula, Term, cores
from tocsin.lab.capacity.load import Hardware, Load
from tocsin.lab.capacity.parts import SPLIT, Limit, Part

FURTHER = "results/s to further brokers"


def cluster(load: Load, costs: Costs, hardware: Hardware, broker_count: int) -> Part:
    sent = load.results_per_s * copies(broker_count, load.subscribers_per_set)
    own = costs.of("cluster")
    used = cores(
        [
            Term("process", 1, 1e6 * own.idle_cores, "µs idle"),
            Term("runs/s", load.runs_per_s, own.us_of_run(load.sets), "µs"),
            Term("records/s", load.records_per_s, own.us_per_record, "µs"),
            Term("results/s", load.results_per_s, own.us_per_result, "µs"),
            Term(FURTHER, sent - load.results_per_s, own.us_per_copy, "µs"),
            Term("deliveries/s", load.deliveries_per_s, own.us_per_delivery, "µs"),
        ]
    )
    memory = _memory(costs, "cluster", load)
    record = load.record_bytes + costs.wire.bytes_per_record
    notice = load.result_bytes + costs.wire.bytes_per_notice
    return Part(
        name="cluster",
        formulas=(
            used,
            memory,
            Formula("in", [Term("records/s", load.records_per_s, record, "B")], "B/s"),
            Formula("out", [Term("results/s at their brokers", sent, notice, "B")], "B/s"),
        ),
        limits=(
            Limit(
                of="the cluster's process: Python runs on one core of it at a time",
                needs=used.value,
                most=hardware.headroom,
                unit="cores",
                moved_by=SPLIT,
            ),
        ),
        binds="CPU",
    )


def spark(load: Load, costs: Costs, hardware: Hardware) -> Part:
    own = costs.of("Java")
    used = cores(
        [
            Term("process", 1, 1e6 * own.idle_cores, "µs idle"),
            Term("runs/s", load.runs_per_s, own.us_of_run(load.sets), "µs"),
            Term("records/s", load.records_per_s, own.us_per_record, "µs"),
            Term("results/s", load.results_per_s, own.us_per_result, "µs"),
        ]
    )
    memory = _memory(costs, "Java", load)
    return Part(
        name="Spark",
        formulas=(used, memory),
        limits=(
            _runs_limit(load, costs, hardware),
            Limit(
                of="one driver, which holds all parameter sets",
                needs=memory.value,
                most=hardware.headroom * hardware.memory_bytes,
                unit="B",
                moved_by="a machine with more memory and a higher spark_memory",
            ),
        ),
        machines=1 if costs.profile == "company" else 0,
        binds="CPU",
    )


def _runs_limit(load: Load, costs: Costs, hardware: Hardware) -> Limit:
    """A channel's runs follow each other: Java looks, then the cluster's process commits."""
    java, cluster = costs.of("Java"), costs.of("cluster")
    per_run_us = java.us_of_run(load.sets) + cluster.us_of_run(load.sets) + 1e6 * costs.run_wait_s
    busy_s = 1e-6 * (
        load.runs_per_s * per_run_us
        + load.records_per_s * java.us_per_record
        + load.results_per_s * (java.us_per_result + cluster.us_per_result)
    )
    what = "one task looks at a channel's records" if costs.profile == "company" else "one run"
    return Limit(
        of=f"{what} at a time, of each of {load.channels:g} channels",
        needs=busy_s,
        most=hardware.headroom * load.channels,
        unit="s of each second",
        moved_by="questions divided among several channels; one channel is looked at by one task",
    )


def coordinator(costs: Costs, hardware: Hardware, broker_count: int) -> Part:
    own = costs.of("coordinator")
    used = cores([Term("brokers", broker_count, 1e6 * own.idle_cores, "µs of heartbeats")])
    return Part(
        name="coordinator",
        formulas=(used, Formula("memory", [Term("process", 1, own.base_bytes, "B")], "B")),
        limits=(
            Limit(
                of="one coordinator, one core",
                needs=used.value,
                most=hardware.headroom,
                unit="cores",
                moved_by="a longer heartbeat_s",
            ),
        ),
        binds="CPU",
    )


def with_machine(cluster: Part, spark: Part, coordinator: Part, hardware: Hardware) -> Part:
    """The machine of the cluster: beside it the coordinator, and Spark unless it has its own."""
    beside = [coordinator, *([] if spark.machines else [spark])]
    total = cluster.cores + sum(part.cores for part in beside)
    memory = cluster.memory_bytes + sum(part.memory_bytes for part in beside)
    names = " and ".join(part.name for part in beside)
    whole = (
        Limit(
            of=f"one machine for the cluster, {names}: its cores",
            needs=total,
            most=hardware.headroom * hardware.cores,
            unit="cores",
            moved_by="a machine with more cores",
        ),
        Limit(
            of=f"one machine for the cluster, {names}: its memory",
            needs=memory,
            most=hardware.headroom * hardware.memory_bytes,
            unit="B",
            moved_by="a machine with more memory",
        ),
    )
    return replace(cluster, limits=(*cluster.limits, *whole), machines=1)


def _memory(costs: Costs, process: str, load: Load) -> Formula:
    own = costs.of(process)
    return Formula(
        "memory",
        [
            Term("process", 1, own.base_bytes, "B"),
            Term("sets", load.sets, own.bytes_per_set, "B"),
            Term("subscriptions", load.subscriptions, own.bytes_per_subscription, "B"),
        ],
        "B",
    )

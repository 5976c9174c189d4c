"""What keeps records and results: the log and the store, as files or as Kafka and a database."""

from __future__ import annotations

from tocsin.lab.capacity.costs import Costs
from tocsin.lab.capacity.formulas import Formula, Term, cores
from tocsin.lab.capacity.load import Hardware, Load
from tocsin.lab.capacity.parts import SPLIT, Limit, Part


def log(load: Load, costs: Costs) -> Part:
    written = load.record_bytes + costs.storage.log_bytes_per_record
    kept = load.keep_records_s * load.records_per_s
    return Part(
        name="log and Parquet",
        formulas=(
            Formula("written", [Term("records/s", load.records_per_s, written, "B")], "B/s"),
            Formula(
                "disk",
                [Term("records", kept, load.record_bytes * costs.storage.parquet_share, "B")],
                "B",
            ),
        ),
        processes=0,
        binds="disk",
    )


def kafka(load: Load, costs: Costs, hardware: Hardware) -> Part:
    own = costs.of("Kafka")
    used = cores(
        [
            Term("process", 1, 1e6 * own.idle_cores, "µs idle"),
            Term("records/s", load.records_per_s, own.us_per_record, "µs"),
            Term("results/s", load.results_per_s, own.us_per_result, "µs"),
        ]
    )
    memory = Formula("memory", [Term("process", 1, own.base_bytes, "B")], "B")
    return Part(
        name="Kafka",
        formulas=(used, memory, *log(load, costs).formulas),
        limits=(
            Limit(
                of="one partition of each dataset, led by one machine",
                needs=used.value,
                most=hardware.headroom * hardware.cores,
                unit="cores",
                moved_by="records divided among several datasets: a topic has one partition",
            ),
        ),
        machines=1,
        partitions=1,
        binds="CPU",
    )


def store(load: Load, costs: Costs) -> Part:
    storage = costs.storage
    result = load.result_bytes + storage.store_bytes_per_result
    return Part(
        name="store",
        formulas=(
            Formula("rows", [Term("results/s", load.results_per_s, 1, "row")], "/s"),
            Formula("written", [Term("results/s", load.results_per_s, result, "B")], "B/s"),
            Formula(
                "disk",
                [
                    Term("results", load.results_per_s * load.keep_results_s, result, "B"),
                    Term("sets", load.sets, storage.store_bytes_per_set, "B"),
                    Term(
                        "subscriptions",
                        load.subscriptions,
                        storage.store_bytes_per_subscription,
                        "B",
                    ),
                ],
                "B",
            ),
        ),
        processes=0,
        binds="disk",
    )


def database(load: Load, costs: Costs, hardware: Hardware) -> Part:
    own = costs.of("PostgreSQL")
    used = cores(
        [
            Term("process", 1, 1e6 * own.idle_cores, "µs idle"),
            Term("runs/s", load.runs_per_s, own.us_of_run(load.sets), "µs"),
            Term("records/s", load.records_per_s, own.us_per_record, "µs"),
            Term("results/s", load.results_per_s, own.us_per_result, "µs"),
            Term("deliveries/s", load.deliveries_per_s, own.us_per_delivery, "µs"),
        ]
    )
    memory = Formula("memory", [Term("process", 1, own.base_bytes, "B")], "B")
    return Part(
        name="database",
        formulas=(used, memory, *store(load, costs).formulas),
        limits=(
            Limit(
                of="one connection writes the store",
                needs=used.value,
                most=hardware.headroom,
                unit="cores",
                moved_by=SPLIT,
            ),
        ),
        machines=1,
        binds="CPU",
    )

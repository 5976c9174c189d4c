"""Costs in round numbers, to compute with by hand."""

from __future__ import annotations

from tocsin.lab.capacity.costs import (
    VERSION,
    Costs,
    Machine,
    ProcessCosts,
    StorageCosts,
    WireCosts,
)

MACHINE = Machine(
    cores=2,
    memory_bytes=16 * 10**9,
    system="Linux x86_64",
    python="3.11",
    java="17",
    tocsin="0",
    measured_at="2026-01-01T00:00:00+00:00",
    others_cores=0.0,
)
PROCESSES = {
    "cluster": ProcessCosts(
        idle_cores=0.01,
        us_per_run=5000,
        us_per_record=20,
        us_per_result=30,
        us_per_copy=10,
        us_per_delivery=15,
        base_bytes=200e6,
        bytes_per_set=300,
    ),
    "Java": ProcessCosts(
        us_per_run=50_000,
        us_per_run_per_1000_sets=100,
        us_per_record=40,
        us_per_result=10,
        base_bytes=500e6,
        bytes_per_set=200,
    ),
    "broker": ProcessCosts(
        idle_cores=0.02,
        us_per_result=12,
        us_per_delivery=8,
        us_per_delivery_apart=40,
        base_bytes=80e6,
        bytes_per_set=200,
        bytes_per_subscription=400,
        bytes_per_connection=10_000,
    ),
    "coordinator": ProcessCosts(idle_cores=0.001, base_bytes=60e6),
    "client": ProcessCosts(us_per_delivery=20),
    "publisher": ProcessCosts(us_per_record=10),
}
SERVERS = {
    "Kafka": ProcessCosts(idle_cores=0.02, us_per_record=15, base_bytes=500e6),
    "PostgreSQL": ProcessCosts(us_per_result=50, us_per_delivery=5, base_bytes=100e6),
}


def costs(profile: str = "embedded") -> Costs:
    servers = SERVERS if profile == "company" else {}
    return Costs(
        version=VERSION,
        profile=profile,
        machine=MACHINE,
        record_bytes=250,
        result_bytes=200,
        run_wait_s=0.01,
        processes={**PROCESSES, **servers},
        storage=StorageCosts(
            log_bytes_per_record=50,
            parquet_share=0.5,
            store_bytes_per_result=100,
            store_bytes_per_set=170,
            store_bytes_per_subscription=100,
        ),
        wire=WireCosts(bytes_per_record=10, bytes_per_notice=100, bytes_per_delivery=200),
    )

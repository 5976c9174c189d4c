"""What one record, result, delivery, run, parameter set and connection costs each process.

`python -m bench capacity` measures these and writes them; a set for each profile comes with the
package. Every figure is a price for one thing on one machine; how many things there are is the
model's affair.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from tocsin.errors import InvalidInput

VERSION = 1
"""Of this record: a reader takes no other."""
PROFILES = ("embedded", "company")
Amount = Annotated[float, Meta(ge=0)]


class Machine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the costs were measured, and how busy others kept it."""

    cores: Annotated[int, Meta(ge=1)]
    memory_bytes: int
    system: str
    python: str
    java: str
    tocsin: str
    measured_at: str
    others_cores: Amount
    """So many cores worked for others meanwhile: costs are then too high rather than too low."""


class ProcessCosts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """CPU (µs) and memory of one process. What it does not do costs it nothing."""

    idle_cores: Amount = 0.0
    """What it uses while nothing happens."""
    us_per_run: Amount = 0.0
    us_per_run_per_1000_sets: Amount = 0.0
    """Each run looks at its parameter sets: so much more with each thousand of them."""
    us_per_record: Amount = 0.0
    us_per_result: Amount = 0.0
    us_per_copy: Amount = 0.0
    """A result that goes to one further broker."""
    us_per_delivery: Amount = 0.0
    """A result that reaches one of its subscribers, on a connection with many subscriptions."""
    us_per_delivery_apart: Amount = 0.0
    """The same, when each subscriber has a connection of their own."""
    base_bytes: Amount = 0.0
    bytes_per_set: Amount = 0.0
    bytes_per_subscription: Amount = 0.0
    bytes_per_connection: Amount = 0.0

    def us_of_run(self, sets: float) -> float:
        return self.us_per_run + self.us_per_run_per_1000_sets * sets / 1000


class StorageCosts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes on disk beside the record's and the result's own."""

    log_bytes_per_record: Amount
    """In the publication log, until its segment is Parquet."""
    parquet_share: Amount
    """What the same records take as Parquet, as a share of their own bytes."""
    store_bytes_per_result: Amount
    store_bytes_per_set: Amount
    store_bytes_per_subscription: Amount


class WireCosts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes on the wire beside the record's and the result's own."""

    bytes_per_record: Amount
    bytes_per_notice: Amount
    """Of one result to one broker."""
    bytes_per_delivery: Amount


class Costs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int
    profile: str
    machine: Machine
    record_bytes: Annotated[float, Meta(gt=0)]
    """Of the records that were measured with."""
    result_bytes: Annotated[float, Meta(gt=0)]
    run_wait_s: Amount
    """What a run waits for besides its CPU: disks, sockets, and to be noticed."""
    processes: dict[str, ProcessCosts]
    storage: StorageCosts
    wire: WireCosts

    def of(self, process: str) -> ProcessCosts:
        return self.processes.get(process, NOTHING)


NOTHING = ProcessCosts()
REQUIRED = {"cluster", "Java", "broker", "coordinator"}
SERVERS = {"company": {"Kafka", "PostgreSQL"}, "embedded": set[str]()}


def reference(profile: str) -> Costs:
    """The costs that come with the package."""
    name = f"{profile}.json"
    file = files("tocsin.lab.capacity") / "reference" / name
    if not file.is_file():
        raise InvalidInput(
            f"no costs of the profile {profile} come with the package",
            field="costs",
            hint=f"measure them: python -m bench.capacity --profile {profile} --costs FILE",
        )
    return decode(file.read_bytes(), name)


def read(file: Path) -> Costs:
    try:
        return decode(file.read_bytes(), str(file))
    except OSError as error:
        raise InvalidInput(
            f"cannot read {file}: {error.strerror}",
            field="costs",
            hint="a file that python -m bench capacity wrote",
        ) from None


def decode(content: bytes, name: str) -> Costs:
    try:
        costs = msgspec.json.decode(content, type=Costs)
    except msgspec.DecodeError as error:
        raise _refused(name, str(error)) from None
    if costs.version != VERSION:
        raise _refused(name, f"they have version {costs.version}, and this is version {VERSION}")
    if costs.profile not in PROFILES:
        raise _refused(name, f"there is no profile {costs.profile!r}")
    missing = sorted((REQUIRED | SERVERS[costs.profile]) - costs.processes.keys())
    if missing:
        raise _refused(name, f"nothing is said of {', '.join(missing)}")
    return costs


def encode(costs: Costs) -> bytes:
    return msgspec.json.format(msgspec.json.encode(costs), indent=2) + b"\n"


def _refused(name: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"{name} has no costs that can be used: {why}",
        field="costs",
        hint="measure them again: python -m bench capacity",
    )

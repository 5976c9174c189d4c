"""`tocsin plan capacity`: what each part of a system needs, and where the next wall is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from tocsin.cli.output import out, show_table
from tocsin.cli.values import count_from, rate_from, seconds_from, share_from, size_from
from tocsin.errors import InvalidInput
from tocsin.lab.capacity.costs import PROFILES, Costs, read, reference
from tocsin.lab.capacity.load import Hardware, Load

if TYPE_CHECKING:
    from tocsin.lab.capacity.model import Plan
    from tocsin.lab.capacity.parts import Limit, Part

BUSY = 0.25  # of a machine's cores
FAR_LARGER = 2.0  # than the records and results that costs were measured with


class Wanted(Struct, frozen=True, kw_only=True):
    """Who is there, what comes, and how long it is kept."""

    subscribers: Annotated[str, typer.Option(help="how many people or programs, such as 10M")]
    records: Annotated[str, typer.Option(help="that come: 50k/s, 20M/h")]
    record_size: Annotated[str, typer.Option(help="of one record")] = "1KB"
    results_per_record: Annotated[str, typer.Option(help="parameter sets that a record meets")] = (
        "1"
    )
    result_size: Annotated[str, typer.Option(help="of one result")] = "500B"
    subscriptions_each: Annotated[str, typer.Option(help="of a subscriber")] = "1"
    subscribers_per_set: Annotated[
        str, typer.Option(help="subscriptions that share a parameter set")
    ] = "10"
    online: Annotated[str, typer.Option(help="share of subscribers that are connected")] = "20%"
    keep_records: Annotated[str, typer.Option(help="how long")] = "30d"
    keep_results: Annotated[str, typer.Option(help="how long: result_retention_s")] = "7d"
    fresh: Annotated[str, typer.Option(help="a channel runs at least so often")] = "1s"
    channels: Annotated[str, typer.Option(help="that share the questions")] = "1"

    def load(self) -> Load:
        return Load(
            subscribers=count_from(self.subscribers, "subscribers"),
            records_per_s=rate_from(self.records, "records"),
            record_bytes=size_from(self.record_size, "record-size"),
            results_per_record=count_from(self.results_per_record, "results-per-record"),
            result_bytes=size_from(self.result_size, "result-size"),
            subscriptions_each=count_from(self.subscriptions_each, "subscriptions-each"),
            subscribers_per_set=count_from(self.subscribers_per_set, "subscribers-per-set"),
            online=share_from(self.online, "online", "20%"),
            keep_records_s=seconds_from(self.keep_records, "keep-records"),
            keep_results_s=seconds_from(self.keep_results, "keep-results"),
            fresh_s=seconds_from(self.fresh, "fresh"),
            channels=count_from(self.channels, "channels"),
        )


class Having(Struct, frozen=True, kw_only=True):
    """What machines are like, and what things cost."""

    cores: Annotated[str, typer.Option(help="of a machine")] = "8"
    memory: Annotated[str, typer.Option(help="of a machine")] = "32GB"
    headroom: Annotated[str, typer.Option(help="no more of a core or of memory is planned for")] = (
        "70%"
    )
    connections_per_broker: Annotated[str, typer.Option(help="at most")] = "50k"
    profile: Annotated[str | None, typer.Option(help="embedded or company; embedded if none")] = (
        None
    )
    costs: Annotated[
        Path | None, typer.Option(help="file that python -m bench capacity wrote, of this machine")
    ] = None

    def hardware(self) -> Hardware:
        return Hardware(
            cores=count_from(self.cores, "cores"),
            memory_bytes=size_from(self.memory, "memory"),
            headroom=share_from(self.headroom, "headroom", "70%"),
            connections_per_broker=count_from(
                self.connections_per_broker, "connections-per-broker"
            ),
        )

    def prices(self) -> Costs:
        if self.profile is not None and self.profile not in PROFILES:
            raise InvalidInput(
                f"there is no profile {self.profile!r}",
                field="profile",
                hint=f"one of {', '.join(PROFILES)}",
            )
        if self.costs is None:
            return reference(self.profile or PROFILES[0])
        costs = read(self.costs)
        if self.profile not in (None, costs.profile):
            raise InvalidInput(
                f"the costs in {self.costs} are those of the profile {costs.profile}",
                field="costs",
                hint=f"measure them: python -m bench.capacity --profile {self.profile}",
            )
        return costs


def capacity(
    wanted: Wanted,
    having: Having,
    formulas: Annotated[bool, typer.Option(help="show them, with the numbers put in")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="a line of JSON")] = False,
) -> None:
    """Machines, memory, disks and bandwidth for each part, and where the next wall is."""
    from tocsin.lab.capacity.model import plan

    planned = plan(wanted.load(), having.prices(), having.hardware())
    if as_json:
        print(json.dumps(_plain(planned, having)))
        return
    _table(planned)
    if formulas:
        _formulas(planned)
    _conclude(planned, having)


def _table(planned: Plan) -> None:
    columns = ["part", "processes", "machines", "cores", "memory", "disk", "written", "in", "out"]
    rows = [
        [
            part.name,
            f"{part.processes:,}" if part.processes else "",
            _machines(part),
            f"{part.cores:,.3g}" if part.processes else "",
            *(_amount(part, of) for of in ("memory", "disk", "written", "in", "out")),
            part.binds,
        ]
        for part in planned.parts
    ]
    show_table([*columns, "binds"], rows)


def _machines(part: Part) -> str:
    if part.wall is not None:
        return f"none is enough: {part.wall.share:.3g} times too much"
    return f"{part.machines:,}" if part.machines else "the cluster's"


def _amount(part: Part, of: str) -> str:
    from tocsin.lab.capacity.formulas import short

    formula = next((formula for formula in part.formulas if formula.of == of), None)
    return "" if formula is None else f"{short(formula.value)}{formula.unit}"


def _formulas(planned: Plan) -> None:
    _say("")
    for part in planned.parts:
        for formula in part.formulas:
            _say(f"{part.name}: {formula}")


def _conclude(planned: Plan, having: Having) -> None:
    from tocsin.lab.capacity.formulas import short

    _say("")
    for note in _notes(planned, having):
        _say(note)
    for part, limit in planned.walls:
        _say(f"wall: {_limit(part, limit)}; what moves it: {limit.moved_by}")
    if planned.fits:
        part, limit = planned.next_wall
        _say(f"the next wall: {_limit(part, limit)}; what moves it: {limit.moved_by}")
    rate = planned.highest_rate
    wished = planned.load.records_per_s
    if rate:
        _say(f"the same wish meets its first wall at {short(rate)} records/s ({wished:g} wished)")
    else:
        _say("no rate of records is low enough for this wish")


def _limit(part: Part, limit: Limit) -> str:
    from tocsin.lab.capacity.formulas import short

    needs, most = short(limit.needs), short(limit.most)
    return (
        f"{part.name}: {limit.of}: needs {needs} of {most} {limit.unit} ({limit.share:.3g} times)"
    )


def _notes(planned: Plan, having: Having) -> list[str]:
    """What the costs are those of, and where they say little."""
    costs, machine, load = planned.costs, planned.costs.machine, planned.load
    whose = "a reference that comes with Tocsin" if having.costs is None else str(having.costs)
    notes = [
        f"costs: {whose}, {costs.profile}, measured {machine.measured_at[:10]} on "
        f"{machine.cores} cores ({machine.system}, Python {machine.python}); others used "
        f"{machine.others_cores:.1f} of them"
    ]
    if machine.others_cores > BUSY * machine.cores:
        notes.append(
            "note: that machine was busy with other work, so these costs are rough: measure "
            "your own on a quiet one (python -m bench capacity)"
        )
    if not costs.of("Java").bytes_per_set:
        notes.append(
            "note: no memory for a parameter set was seen in Java: Spark needs more than is shown"
        )
    for name, size, measured in (
        ("records", load.record_bytes, costs.record_bytes),
        ("results", load.result_bytes, costs.result_bytes),
    ):
        if size > FAR_LARGER * measured:
            notes.append(
                f"note: CPU was measured with {name} of {measured:.0f} B; larger ones cost more"
            )
    return notes


def _say(text: str) -> None:
    out.print(text, soft_wrap=True, highlight=False, markup=False)


def _plain(planned: Plan, having: Having) -> dict[str, Any]:
    return {
        "fits": planned.fits,
        "highest_records_per_s": planned.highest_rate,
        "machines": planned.machines if planned.fits else None,
        "costs": {
            "reference": having.costs is None,
            "profile": planned.costs.profile,
            "machine": _struct(planned.costs.machine),
        },
        "load": _struct(planned.load)
        | {"sets": planned.load.sets, "deliveries_per_s": planned.load.deliveries_per_s},
        "hardware": _struct(planned.hardware),
        "parts": [
            {
                "part": part.name,
                "processes": part.processes,
                "machines": part.machines if part.wall is None else None,
                "partitions": part.partitions,
                "binds": part.binds,
                "needs": {formula.of: formula.value for formula in part.formulas},
                "formulas": [str(formula) for formula in part.formulas],
                "limits": [
                    _struct(limit) | {"passed": limit.passed, "share": limit.share}
                    for limit in part.limits
                ],
            }
            for part in planned.parts
        ],
    }


def _struct(record: Struct) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(record)
    return plain

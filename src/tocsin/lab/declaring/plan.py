"""The plan of a run: an experiment after the run's options. Which workloads, policies, values of
the axis and seeds; knows no Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tocsin.errors import InvalidInput, SettingError
from tocsin.lab.declaring.axis import Axis
from tocsin.lab.declaring.experiment import RECORDED, Experiment, Extent, Live, Recording
from tocsin.lab.declaring.settings import converted, divided
from tocsin.lab.declaring.subject import Subject


class Options(Struct, frozen=True, kw_only=True):
    """What one run asks for; None takes what the experiment declares."""

    quick: bool = False
    seeds: int | None = None
    bound_seeds: int | None = None
    policies: Sequence[str] | None = None
    readings: Sequence[str] | None = None
    values: Sequence[int] | None = None
    settings: Mapping[str, str] = {}
    data: Path | None = None
    live: bool = False


class Circumstances(Struct, frozen=True):
    """Of one reading: settings of the workload and of what it meets."""

    workload: Any
    surroundings: Any


class Conditions(Struct, frozen=True, kw_only=True):
    """What all points of one directory share, in plain words. Points of other conditions are never
    mixed in."""

    experiment: str
    quick: bool
    axis: str  # the column of its values
    readings: dict[str, dict[str, Any]]  # settings of every reading, asked for or not


class Plan(Struct, frozen=True, kw_only=True):
    subject: Subject
    axis: Axis
    conditions: Conditions
    circumstances: dict[str, Circumstances]
    readings: tuple[str, ...]
    bounded: tuple[str, ...]  # readings that have bounds
    policies: tuple[str, ...]
    values: dict[str, tuple[int, ...]]  # of the axis, for each reading
    seeds: int
    bound_seeds: int
    first_seed: int = 1
    recordings: tuple[Recording, ...] = ()
    only: dict[str, tuple[int, ...]] = {}
    live: bool = False

    def runs(self, policy: str, value: int) -> bool:
        """Whether the policy is run at that value."""
        return value in self.only.get(policy, (value,))

    @property
    def bounds(self) -> int:
        return sum(len(self.values[reading]) for reading in self.bounded) * self.bound_seeds

    @property
    def points(self) -> int:
        made = self.seeds * sum(self._cells(self.values[reading]) for reading in self.readings)
        return made + self._cells([one.value for one in self.recordings]) + self.bounds

    def _cells(self, values: Sequence[int]) -> int:
        return sum(self.runs(policy, value) for policy in self.policies for value in values)

    @property
    def told(self) -> str:
        """In a line."""
        recorded = f", {len(self.recordings)} recordings" if self.recordings else ""
        some = [policy for policy in self.policies if policy in self.only]
        fewer = f" ({len(some)} policies at fewer)" if some else ""
        each = {reading: len(self.values[reading]) for reading in self.readings}
        axes = {self.axis.of(reading).label for reading in self.readings}
        if len(axes) > 1:
            told = ", ".join(
                f"{reading} ({count} {self.axis.of(reading).plural})"
                for reading, count in each.items()
            )
            grid = f"{self.seeds} seeds × readings {told}"
        else:
            first = self.readings[0] if self.readings else RECORDED
            grid = (
                f"{len(self.values[first])} {self.axis.of(first).plural}{fewer} × "
                f"{self.seeds} seeds × readings {' and '.join(self.readings)}"
            )
        return (
            f"{self.points} {'live ' if self.live else ''}points: {len(self.policies)} policies × "
            f"{grid}{recorded}, and {self.bounds} bounds"
        )

    def recorded(self) -> Iterator[tuple[Recording, int, Circumstances]]:
        """Each recording, with the circumstances it is played in. Those of one value count as
        seeds."""
        seen: Counter[int] = Counter()
        here = self.circumstances[RECORDED] if self.recordings else None
        for recording in self.recordings:
            assert here is not None
            seen[recording.value] += 1
            workload = msgspec.structs.replace(here.workload, **recording.settings)
            yield (
                recording,
                seen[recording.value],
                Circumstances(workload, here.surroundings),
            )


def plan(experiment: Experiment, options: Options) -> Plan:
    """The run that was asked for; says what is wrong with it."""
    declared = _declared(experiment, options)
    extent = declared.quick if options.quick else declared.full
    seeds = _positive("seeds", options.seeds, extent.seeds)
    bound_seeds = options.bound_seeds
    if bound_seeds is None:
        bound_seeds = min(extent.bound_seeds, seeds)
    if bound_seeds < 0:
        raise InvalidInput(f"{bound_seeds} is not a number of seeds", field="bound-seeds")
    if bound_seeds and experiment.subject.bound is None:
        raise InvalidInput(f"{experiment.name} has no bounds", field="bound-seeds", hint="0")
    readings = _chosen_readings(experiment, options)
    circumstances = _circumstances(experiment, extent, options)
    bounded = {reading.name for reading in experiment.readings if reading.bounded}
    return Plan(
        subject=experiment.subject,
        axis=experiment.axis,
        conditions=Conditions(
            experiment=experiment.name,
            quick=options.quick,
            axis=experiment.axis.column,
            readings={name: _plainly(found) for name, found in circumstances.items()},
        ),
        circumstances=circumstances,
        readings=tuple(name for name in readings if name != RECORDED),
        bounded=tuple(name for name in readings if name in bounded),
        policies=_chosen_policies(experiment.subject, options.policies or experiment.policies),
        values=_chosen_values(experiment, extent, readings, options.values),
        seeds=seeds,
        bound_seeds=bound_seeds,
        first_seed=extent.first_seed,
        recordings=_recordings(experiment, options) if RECORDED in readings else (),
        only={} if options.policies or options.values else extent.only,
        live=options.live,
    )


def _declared(experiment: Experiment, options: Options) -> Experiment | Live:
    if not options.live:
        return experiment
    if experiment.live is None:
        raise InvalidInput(
            f"{experiment.name} is not played live", field="live", hint="leave --live out"
        )
    return experiment.live


def _positive(field: str, asked: int | None, default: int) -> int:
    if asked is not None and asked < 1:
        raise InvalidInput(f"{asked} is not a number of {field}", field=field, hint="1 or more")
    return default if asked is None else asked


def _chosen_readings(experiment: Experiment, options: Options) -> tuple[str, ...]:
    known = [reading.name for reading in experiment.readings]
    if options.data is not None:
        known.append(RECORDED)
    for name in options.readings or ():
        if name not in known:
            raise InvalidInput(
                f"{experiment.name} has no reading {name!r}",
                field="readings",
                hint=f"one of {', '.join(known)}",
            )
    by_itself: Sequence[str] = known
    if options.live and experiment.live is not None:
        by_itself = experiment.live.readings or known[:1]
    chosen = [*(options.readings or by_itself), *([RECORDED] if options.data is not None else [])]
    return tuple(dict.fromkeys(chosen))


def _chosen_policies(subject: Subject, asked: Sequence[str]) -> tuple[str, ...]:
    for text in asked:
        try:
            subject.functions(text)
        except SettingError as error:
            raise InvalidInput(error.message, field="policies", hint=error.hint) from None
    return tuple(dict.fromkeys(asked))


def _chosen_values(
    experiment: Experiment, extent: Extent, readings: Sequence[str], asked: Sequence[int] | None
) -> dict[str, tuple[int, ...]]:
    axes = {experiment.axis.of(reading).label for reading in readings}
    if asked and len(axes) > 1:
        raise InvalidInput(
            f"{experiment.name} has several axes: {', '.join(sorted(axes))}",
            field="sizes",
            hint="choose one with --readings",
        )
    found = {}
    for reading in readings:
        axis = experiment.axis.of(reading)
        values = asked or extent.of(reading)
        for value in values:
            if value < 1:
                raise InvalidInput(
                    f"{value} is none of the {axis.plural}",
                    field="sizes",
                    hint=f"such as {axis.told(axis.unit).replace(' ', '')}",
                )
        found[reading] = tuple(sorted(set(values)))
    return found


def _recordings(experiment: Experiment, options: Options) -> tuple[Recording, ...]:
    if options.data is None:
        return ()
    if experiment.recordings is None:
        raise InvalidInput(
            f"{experiment.name} plays no recordings", field="data", hint="leave --data out"
        )
    found = experiment.recordings(options.data)
    return tuple(sorted(found, key=lambda one: one.value))


def _circumstances(
    experiment: Experiment, extent: Extent, options: Options
) -> dict[str, Circumstances]:
    """The declared settings, the extent's over them, the reading's, and the user's over all."""
    subject = experiment.subject
    kinds = (subject.workload, subject.surroundings)
    between = {key for reading in experiment.readings for key in reading.settings}
    chosen = f"it is what the readings of {experiment.name} differ in: choose with --readings"
    given = divided(options.settings, kinds, dict.fromkeys(between, chosen))
    readings = {reading.name: reading.settings for reading in experiment.readings}
    if experiment.recordings is not None:
        readings[RECORDED] = {}
    found = {}
    for name, settings in readings.items():
        together = experiment.settings | extent.settings | settings
        workload, surroundings = (
            converted(
                {key: value for key, value in together.items() if key in kind.__struct_fields__}
                | mine,
                kind,
            )
            for kind, mine in zip(kinds, given, strict=True)
        )
        found[name] = Circumstances(workload, surroundings)
    return found


def _plainly(circumstances: Circumstances) -> dict[str, Any]:
    """As a file of JSON gives them back."""
    both = [
        msgspec.json.decode(msgspec.json.encode(one))
        for one in (circumstances.workload, circumstances.surroundings)
    ]
    return {**both[0], **both[1]}

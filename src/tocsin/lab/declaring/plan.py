"""The plan of a run: an experiment after the run's options. Which workloads, policies, sizes and
seeds; knows no Spark and no files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from tocsin.errors import InvalidInput, SettingError, field_named
from tocsin.lab.declaring.experiment import Experiment, Extent
from tocsin.lab.workloads.edge import EdgeSettings
from tocsin.lab.workloads.network import Network
from tocsin.policies import parse_policy

T = TypeVar("T")


class Options(Struct, frozen=True, kw_only=True):
    """What one run asks for; None takes what the experiment declares."""

    quick: bool = False
    seeds: int | None = None
    bound_seeds: int | None = None
    policies: Sequence[str] | None = None
    readings: Sequence[str] | None = None
    sizes_bytes: Sequence[int] | None = None
    settings: Mapping[str, str] = {}


class Conditions(Struct, frozen=True, kw_only=True):
    """What all points of one directory share. Points of other conditions are never mixed in."""

    experiment: str
    quick: bool
    readings: dict[str, EdgeSettings]  # of every reading, asked for or not
    network: Network


class Plan(Struct, frozen=True, kw_only=True):
    conditions: Conditions
    readings: tuple[str, ...]
    policies: tuple[str, ...]
    sizes_bytes: tuple[int, ...]
    seeds: int
    bound_seeds: int
    first_seed: int = 1

    @property
    def points(self) -> int:
        return self._cells * (len(self.policies) * self.seeds + self.bound_seeds)

    @property
    def _cells(self) -> int:
        return len(self.readings) * len(self.sizes_bytes)

    @property
    def told(self) -> str:
        """In a line."""
        return (
            f"{self.points} points: {len(self.policies)} policies × {len(self.sizes_bytes)} sizes "
            f"× {self.seeds} seeds × readings {' and '.join(self.readings)}, "
            f"and {self._cells * self.bound_seeds} bounds"
        )


def plan(experiment: Experiment, options: Options) -> Plan:
    """The run that was asked for; says what is wrong with it."""
    extent = experiment.quick if options.quick else experiment.full
    seeds = _positive("seeds", options.seeds, extent.seeds)
    bound_seeds = options.bound_seeds
    if bound_seeds is None:
        bound_seeds = min(extent.bound_seeds, seeds)
    if bound_seeds < 0:
        raise InvalidInput(f"{bound_seeds} is not a number of seeds", field="bound-seeds")
    return Plan(
        conditions=_conditions(experiment, extent, options),
        readings=_chosen_readings(experiment, options.readings),
        policies=_chosen_policies(options.policies or experiment.policies),
        sizes_bytes=_chosen_sizes(options.sizes_bytes or extent.sizes_bytes),
        seeds=seeds,
        bound_seeds=bound_seeds,
        first_seed=extent.first_seed,
    )


def _positive(field: str, asked: int | None, default: int) -> int:
    if asked is not None and asked < 1:
        raise InvalidInput(f"{asked} is not a number of {field}", field=field, hint="1 or more")
    return default if asked is None else asked


def _chosen_readings(experiment: Experiment, asked: Sequence[str] | None) -> tuple[str, ...]:
    known = [reading.name for reading in experiment.readings]
    for name in asked or ():
        if name not in known:
            raise InvalidInput(
                f"{experiment.name} has no reading {name!r}",
                field="readings",
                hint=f"one of {', '.join(known)}",
            )
    return tuple(dict.fromkeys(asked or known))


def _chosen_policies(asked: Sequence[str]) -> tuple[str, ...]:
    for text in asked:
        try:
            parse_policy(text)
        except SettingError as error:
            raise InvalidInput(error.message, field="policies", hint=error.hint) from None
    return tuple(dict.fromkeys(asked))


def _chosen_sizes(asked: Sequence[int]) -> tuple[int, ...]:
    for size in asked:
        if size < 1:
            raise InvalidInput(f"{size} bytes is no cache size", field="sizes", hint="such as 50MB")
    return tuple(sorted(set(asked)))


def _conditions(experiment: Experiment, extent: Extent, options: Options) -> Conditions:
    """The declared settings, the extent's over them, and the user's over both."""
    edge: dict[str, Any] = {}
    network: dict[str, Any] = {}
    between = {key for reading in experiment.readings for key in reading.settings}
    for key, text in options.settings.items():
        if key in between:
            raise InvalidInput(
                f"{key} is what the readings of {experiment.name} differ in",
                field="set",
                hint="choose with --readings",
            )
        if key in EdgeSettings.__struct_fields__:
            edge[key] = _value(text)
        elif key in Network.__struct_fields__:
            network[key] = _value(text)
        else:
            known = (*EdgeSettings.__struct_fields__, *Network.__struct_fields__)
            names = ", ".join(name for name in known if name not in between)
            raise InvalidInput(f"there is no setting {key!r}", field="set", hint=f"one of {names}")
    return Conditions(
        experiment=experiment.name,
        quick=options.quick,
        readings={
            reading.name: _convert(extent.settings | reading.settings | edge, EdgeSettings)
            for reading in experiment.readings
        },
        network=_convert(network, Network),
    )


def _value(text: str) -> Any:
    """A number, a word, or several of them separated by commas."""
    parts = [part for part in re.split(r"[,\s()\[\]]+", text) if part]
    return parts[0] if len(parts) == 1 else parts


def _convert(values: dict[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(values, kind, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        name = field_named(error) or ""
        given = f"{name}={values[name]}: " if name in values else ""
        raise InvalidInput(f"--set {given}{error}", field="set") from None

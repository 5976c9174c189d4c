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
from tocsin.lab.spec.axis import Axis
from tocsin.lab.spec.experiment import RECORDED, Experiment, Extent, Live, Recording
from tocsin.lab.spec.settings import converted, divided
from tocsin.lab.spec.study import Study


class Options(Struct, frozen=True, kw_only=True):
    """What one run asks for; None takes what the experiment declares."""

    quick: bool = False
    seeds: int | None = None
    bound_seeds: int | None = None
    policies: Sequence[str] | None = None
    variants: Sequence[str] | None = None
    values: Sequence[int] | None = None
    settings: Mapping[str, str] = {}
    data: Path | None = None
    live: bool = False


class PointConfig(Struct, frozen=True):
    """Of one variant: settings of the workload and of what it meets."""

    workload: Any
    environment: Any


class Conditions(Struct, frozen=True, kw_only=True):
    """What all points of one directory share, in plain words. Points of other conditions are never
    mixed in."""

    experiment: str
    quick: bool
    axis: str  # the column of its values
    variants: dict[str, dict[str, Any]]  # settings of every variant, asked for or not


class Plan(Struct, frozen=True, kw_only=True):
    study: Study
    axis: Axis
    conditions: Conditions
    configs: dict[str, PointConfig]
    variants: tuple[str, ...]
    bounded: tuple[str, ...]  # variants that have bounds
    policies: tuple[str, ...]
    values: dict[str, tuple[int, ...]]  # of the axis, for each variant
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
        return sum(len(self.values[variant]) for variant in self.bounded) * self.bound_seeds

    @property
    def points(self) -> int:
        played = self.seeds * sum(self._cells(self.values[variant]) for variant in self.variants)
        return (
            played + self._cells([recording.value for recording in self.recordings]) + self.bounds
        )

    def _cells(self, values: Sequence[int]) -> int:
        return sum(self.runs(policy, value) for policy in self.policies for value in values)

    @property
    def summary(self) -> str:
        """In a line."""
        recorded = f", {len(self.recordings)} recordings" if self.recordings else ""
        limited = [policy for policy in self.policies if policy in self.only]
        fewer = f" ({len(limited)} policies at fewer)" if limited else ""
        counts = {variant: len(self.values[variant]) for variant in self.variants}
        axes = {self.axis.of(variant).label for variant in self.variants}
        if len(axes) > 1:
            listed = ", ".join(
                f"{variant} ({count} {self.axis.of(variant).plural})"
                for variant, count in counts.items()
            )
            grid = f"{self.seeds} seeds × variants {listed}"
        else:
            first = self.variants[0] if self.variants else RECORDED
            grid = (
                f"{len(self.values[first])} {self.axis.of(first).plural}{fewer} × "
                f"{self.seeds} seeds × variants {' and '.join(self.variants)}"
            )
        return (
            f"{self.points} {'live ' if self.live else ''}points: {len(self.policies)} policies × "
            f"{grid}{recorded}, and {self.bounds} bounds"
        )

    def recorded(self) -> Iterator[tuple[Recording, int, PointConfig]]:
        """Each recording, with the configuration it is played in. Those of one value count as
        seeds."""
        seen: Counter[int] = Counter()
        here = self.configs[RECORDED] if self.recordings else None
        for recording in self.recordings:
            assert here is not None
            seen[recording.value] += 1
            workload = msgspec.structs.replace(here.workload, **recording.settings)
            yield (
                recording,
                seen[recording.value],
                PointConfig(workload, here.environment),
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
    if bound_seeds and experiment.study.bound is None:
        raise InvalidInput(f"{experiment.name} has no bounds", field="bound-seeds", hint="0")
    variants = _chosen_variants(experiment, options)
    configs = _configs(experiment, extent, options)
    bounded = {variant.name for variant in experiment.variants if variant.bounded}
    return Plan(
        study=experiment.study,
        axis=experiment.axis,
        conditions=Conditions(
            experiment=experiment.name,
            quick=options.quick,
            axis=experiment.axis.column,
            variants={name: _plainly(config) for name, config in configs.items()},
        ),
        configs=configs,
        variants=tuple(name for name in variants if name != RECORDED),
        bounded=tuple(name for name in variants if name in bounded),
        policies=_chosen_policies(experiment.study, options.policies or experiment.policies),
        values=_chosen_values(experiment, extent, variants, options.values),
        seeds=seeds,
        bound_seeds=bound_seeds,
        first_seed=extent.first_seed,
        recordings=_recordings(experiment, options) if RECORDED in variants else (),
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


def _positive(field: str, number: int | None, default: int) -> int:
    if number is not None and number < 1:
        raise InvalidInput(f"{number} is not a number of {field}", field=field, hint="1 or more")
    return default if number is None else number


def _chosen_variants(experiment: Experiment, options: Options) -> tuple[str, ...]:
    known = [variant.name for variant in experiment.variants]
    if options.data is not None:
        known.append(RECORDED)
    for name in options.variants or ():
        if name not in known:
            raise InvalidInput(
                f"{experiment.name} has no variant {name!r}",
                field="variants",
                hint=f"one of {', '.join(known)}",
            )
    by_itself: Sequence[str] = known
    if options.live and experiment.live is not None:
        by_itself = experiment.live.variants or known[:1]
    chosen = [*(options.variants or by_itself), *([RECORDED] if options.data is not None else [])]
    return tuple(dict.fromkeys(chosen))


def _chosen_policies(study: Study, policies: Sequence[str]) -> tuple[str, ...]:
    for text in policies:
        try:
            study.functions(text)
        except SettingError as error:
            raise InvalidInput(error.message, field="policies", hint=error.hint) from None
    return tuple(dict.fromkeys(policies))


def _chosen_values(
    experiment: Experiment, extent: Extent, variants: Sequence[str], chosen: Sequence[int] | None
) -> dict[str, tuple[int, ...]]:
    axes = {experiment.axis.of(variant).label for variant in variants}
    if chosen and len(axes) > 1:
        raise InvalidInput(
            f"{experiment.name} has several axes: {', '.join(sorted(axes))}",
            field="sizes",
            hint="choose one with --variants",
        )
    by_variant = {}
    for variant in variants:
        axis = experiment.axis.of(variant)
        values = chosen or extent.of(variant)
        for value in values:
            if value < 1:
                raise InvalidInput(
                    f"{value} is none of the {axis.plural}",
                    field="sizes",
                    hint=f"such as {axis.in_words(axis.unit).replace(' ', '')}",
                )
        by_variant[variant] = tuple(sorted(set(values)))
    return by_variant


def _recordings(experiment: Experiment, options: Options) -> tuple[Recording, ...]:
    if options.data is None:
        return ()
    if experiment.recordings is None:
        raise InvalidInput(
            f"{experiment.name} plays no recordings", field="data", hint="leave --data out"
        )
    recordings = experiment.recordings(options.data)
    return tuple(sorted(recordings, key=lambda recording: recording.value))


def _configs(experiment: Experiment, extent: Extent, options: Options) -> dict[str, PointConfig]:
    """The declared settings, the extent's over them, the variant's, and the user's over all."""
    study = experiment.study
    kinds = (study.workload, study.environment)
    between = {key for variant in experiment.variants for key in variant.settings}
    chosen = f"it is what the variants of {experiment.name} differ in: choose with --variants"
    given = divided(options.settings, kinds, dict.fromkeys(between, chosen))
    variants = {variant.name: variant.settings for variant in experiment.variants}
    if experiment.recordings is not None:
        variants[RECORDED] = {}
    configs = {}
    for name, settings in variants.items():
        together = experiment.settings | extent.settings | settings
        workload, environment = (
            converted(
                {key: value for key, value in together.items() if key in kind.__struct_fields__}
                | mine,
                kind,
            )
            for kind, mine in zip(kinds, given, strict=True)
        )
        configs[name] = PointConfig(workload, environment)
    return configs


def _plainly(config: PointConfig) -> dict[str, Any]:
    """As a file of JSON gives them back."""
    both = [
        msgspec.json.decode(msgspec.json.encode(part))
        for part in (config.workload, config.environment)
    ]
    return {**both[0], **both[1]}

"""Which channels share a query, and when one begins anew because others come or go. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping

from tocsin.spark.channels import CompiledChannel
from tocsin.spark.real_time.members import Form

MOST_FORMS = 100
"""So many conditions and results a query has at most: Spark plans it again at every batch."""
GATHER_S = 3.0
"""A query runs so long at least before it begins anew: who comes meanwhile comes together."""
FEW_RECORDS = 1000
"""To look at so many once more costs nobody anything."""
MOST_BEHIND = 50_000
"""A channel that is so many records behind others would make them look at all these again."""


def why_not(compiled: CompiledChannel) -> str:
    """Why a channel cannot run in real-time mode, as far as its query says; empty if it can."""
    if compiled.channel.delivery is not None and compiled.channel.delivery.counts:
        return "its admission policy counts all who match a record, so they must come together"
    if compiled.stored:
        return f"it reads the stored dataset {compiled.stored[0]}"
    if len(compiled.new) != 1 or len(compiled.parts) != 1:
        return "it combines several queries or datasets"
    if compiled.uses_window:
        return "it looks at its run's window"
    (part,) = compiled.parts
    if part.not_streamable:
        return part.not_streamable
    if part.keys is None and part.strategy != "hash join":
        return part.why
    return ""


def assign(
    present: Mapping[int, Collection[str]],
    wanted: Mapping[str, Collection[Form]],
    most: int = MOST_FORMS,
) -> dict[int, tuple[str, ...]]:
    """The channels of each query, by its number. Who is in one stays there; who comes goes where
    there is room, or else into a new one."""
    groups = {number: [n for n in names if n in wanted] for number, names in present.items()}
    forms = {number: {f for n in names for f in wanted[n]} for number, names in groups.items()}
    placed = {name for names in groups.values() for name in names}
    for name, its in wanted.items():
        if name in placed:
            continue
        fitting = (number for number in groups if has_room(forms[number], its, most))
        number = next(fitting, 1 + max(groups, default=0))
        groups.setdefault(number, []).append(name)
        forms.setdefault(number, set()).update(its)
    return {number: tuple(names) for number, names in groups.items() if names}


def has_room(forms: Collection[Form], more: Collection[Form], most: int = MOST_FORMS) -> bool:
    return len({*forms, *more}) <= most


def may_begin_anew(age_s: float, batch_age_s: float, repeated: int) -> bool:
    """Whether a query may be stopped, to begin again with other members. What it looked at since
    its last batch ended, `repeated` records, is then looked at once more."""
    return age_s >= GATHER_S and (repeated <= FEW_RECORDS or batch_age_s <= GATHER_S)


def side_by_side(positions: Mapping[str, int]) -> set[str]:
    """The channels that may begin together. The others catch up by themselves first."""
    if not positions:
        return set()
    least = statistics.median_high(positions.values()) - MOST_BEHIND
    return {name for name, position in positions.items() if position >= least}
